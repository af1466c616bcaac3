/** What could run at the same time: levels, workers, the critical path, and what more workers would bring. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Model } from "../trace/model";
import type { Parallel } from "../trace/types";
import { reveal, seek, useStore, type Store } from "../state";
import { shownMicros, shownNumber } from "../format";
import { Fact } from "../panels/survey/said";
import { busyShare, criticalByKind, parallelLives, partsOf, recordedLives, simulatedLives, type Lives } from "./parallel/lives";
import { Gantt } from "./parallel/gantt";
import { LevelChart, levelWidths, SpeedupChart } from "./parallel/charts";
import { simulate, speedups, type Speedup } from "./parallel/simulate";
import { criticalPath, tasksOf, workOf, type CriticalPath, type Tasks } from "./parallel/tasks";

const MOST_WORKERS = 16;
const ROWS = 7;

const WHENCE = { scheduler: "by the scheduler", native: "by compiled code" } as const;

export function ParallelView() {
  const store = useStore();
  const model = store.model.value;
  const tasks = useMemo(() => tasksOf(model), [model]);
  const path = useMemo(() => criticalPath(tasks), [tasks]);
  const given = useMemo(() => runsOf(model), [model]);
  // 0: as it ran; else so many workers, simulated.
  const workers = useSignal(0);
  // Which of the given runs; after the last of them, the recorded one.
  const source = useSignal(0);
  const run = given[source.value];
  const lives = useMemo(() => livesOf(model, tasks, path, workers.value, run), [model, workers.value, run]);
  if (tasks.count === 0) {
    return (
      <div class="wg-view wg-parallel">
        <p class="wg-muted">Nothing was run, so there are no times.</p>
      </div>
    );
  }
  const selected = store.selection.value;
  const chosen = selected?.kind === "node" ? rowsOf(lives, selected.row) : [];
  return (
    <div class="wg-view wg-parallel" tabIndex={0} aria-label="Parallel">
      <header class="wg-view-head">
        <h2>{shownMicros(lives.micros)}</h2>
        <span class="wg-muted">
          {lives.workers} worker{lives.workers === 1 ? "" : "s"}, {Math.round(100 * busyShare(lives))}% busy
        </span>
        <Choice workers={workers.value} set={(n) => (workers.value = n)} source={source} names={[...given.map((run) => WHENCE[run.origin]), "as recorded"]} />
      </header>
      <Gantt lives={lives} chosen={chosen} choose={(row) => goTo(store, lives, row)} />
      <ul class="wg-key-row">
        <li class="wg-key-forward">forward</li>
        <li class="wg-key-backward">backward</li>
        <li class="wg-key-critical">critical path</li>
        <li class="wg-key-life">waits · runs · hands on</li>
      </ul>
      <div class="wg-parallel-below">
        <Critical model={model} tasks={tasks} path={path} />
        <More tasks={tasks} path={path} workers={workers.value} choose={(n) => (workers.value = n)} />
        <section>
          <h3>Side by side</h3>
          <LevelChart level={path.level} current={store.last.value < 0 ? -1 : (path.level[store.last.value] as number)} />
          <p class="wg-muted">
            {levelWidths(path.level).length.toLocaleString("en")} levels: a step waits only for steps of lower levels, so those of one level could run at the same time. Heights grow with the logarithm.
          </p>
        </section>
      </div>
      {chosen.length > 0 && <Life lives={lives} rows={chosen} />}
    </div>
  );
}

/** The ways in which it was run again. */
function runsOf(model: Model): readonly Parallel[] {
  const { parallel, native } = model.trace;
  return [parallel, native].filter((run) => run !== undefined);
}

function livesOf(model: Model, tasks: Tasks, path: CriticalPath, workers: number, run: Parallel | undefined): Lives {
  if (workers > 0) return simulatedLives(model, tasks, path, simulate(tasks, workers), workers);
  return run !== undefined ? parallelLives(model, run, path) : recordedLives(model, tasks, path);
}

function rowsOf(lives: Lives, node: number): number[] {
  const rows: number[] = [];
  for (let k = 0; k < lives.count; k++) if (lives.node[k] === node) rows.push(k);
  return rows;
}

function goTo(store: Store, lives: Lives, row: number): void {
  const node = lives.node[row] as number;
  if (node < 0) return;
  const model = store.model.value;
  const at = (lives.backward[row] === 1 ? model.backwardAt : model.forwardAt)[node] as number;
  if (at >= 0) seek(store, at + 1);
  reveal(store, { kind: "node", row: node });
}

function Choice({ workers, set, source, names }: { workers: number; set: (n: number) => void; source: { value: number }; names: readonly string[] }) {
  return (
    <div class="wg-choice">
      {names.length > 1 && (
        <div class="wg-segments" role="group" aria-label="Which run">
          {names.map((name, i) => (
            <button key={name} type="button" aria-pressed={workers === 0 && source.value === i} onClick={() => ((source.value = i), set(0))}>
              {name}
            </button>
          ))}
        </div>
      )}
      <label>
        what if{" "}
        <select value={workers} data-wg-keys onChange={(event) => set(Number(event.currentTarget.value))}>
          <option value={0}>as it ran</option>
          {Array.from({ length: MOST_WORKERS }, (_, i) => (
            <option key={i} value={i + 1}>
              {i + 1} worker{i === 0 ? "" : "s"}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Critical({ model, tasks, path }: { model: Model; tasks: Tasks; path: CriticalPath }) {
  const rows = useMemo(() => criticalByKind(model, tasks, path), [model, tasks, path]);
  const sum = path.micros;
  return (
    <section>
      <h3>Critical path</h3>
      <Fact name="time">
        {shownMicros(sum)} of {shownMicros(workOf(tasks))}
      </Fact>
      <Fact name="steps">
        {path.tasks.length.toLocaleString("en")} of {tasks.count.toLocaleString("en")}
      </Fact>
      <p class="wg-muted">The longest chain of recorded steps of which each needs the one before: no number of workers is faster.</p>
      <table class="wg-rows wg-critical-rows">
        <tbody>
          {rows.slice(0, ROWS).map((row) => (
            <tr key={row.op}>
              <td title={row.op}>{row.op}</td>
              <td class="wg-mono">×{row.count.toLocaleString("en")}</td>
              <td class="wg-mono">{shownMicros(row.micros)}</td>
              <td>
                <span class="wg-share">
                  <i style={{ width: `${(100 * row.micros) / Math.max(1e-9, sum)}%` }} />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function More({ tasks, path, workers, choose }: { tasks: Tasks; path: CriticalPath; workers: number; choose: (n: number) => void }) {
  const [rows, setRows] = useState<readonly Speedup[]>([]);
  useEffect(() => {
    // One number of workers at a time, so that a large graph does not hold the page.
    let timer = 0;
    const found: Speedup[] = [];
    const next = () => {
      found.push(...speedups(tasks, path.micros, found.length + 1, found.length + 1));
      setRows([...found]);
      if (found.length < MOST_WORKERS) timer = window.setTimeout(next, 0);
    };
    timer = window.setTimeout(next, 30);
    return () => clearTimeout(timer);
  }, [tasks, path]);
  const limit = path.micros > 0 ? workOf(tasks) / path.micros : 1;
  return (
    <section>
      <h3>With more workers</h3>
      <SpeedupChart rows={rows} chosen={workers} choose={choose} />
      <p class="wg-muted">
        The critical path allows {shownNumber(limit, 3)}× at most (dashed). Simulated from the recorded durations; handing over costs nothing here, so a real run is slower.
      </p>
    </section>
  );
}

function Life({ lives, rows }: { lives: Lives; rows: readonly number[] }) {
  return (
    <table class="wg-rows">
      <thead>
        <tr>
          <th scope="col">step</th>
          <th scope="col">worker</th>
          <th scope="col">waits</th>
          <th scope="col">runs</th>
          <th scope="col">hands on</th>
        </tr>
      </thead>
      <tbody>
        {partsOf(lives, rows).map((part, i) => (
          <tr key={i}>
            <td>
              {part.label}
              {part.ranges > 1 && <span class="wg-muted">, {part.ranges} ranges</span>}
            </td>
            <td class="wg-mono">w{part.worker}</td>
            <td class="wg-mono">{shownMicros(part.waits)}</td>
            <td class="wg-mono">{shownMicros(part.runs)}</td>
            <td class="wg-mono">{shownMicros(part.handsOn)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
