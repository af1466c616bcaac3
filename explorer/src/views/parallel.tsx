/** What runs at the same time: the graph on the clock of its workers, the critical path, and what more workers would bring. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Model } from "../trace/model";
import type { Parallel } from "../trace/types";
import { MOST_WORKERS, reveal, seek, useStore, WORKERS_FIRST, type Store } from "../state";
import { shownMicros, shownNumber } from "../format";
import { Fact } from "../panels/survey/said";
import { useLater } from "../panels/survey/later";
import { Transport } from "../panels/transport";
import { reducedMotion } from "./graph/canvas";
import { busyShare, criticalByKind, parallelLives, partsOf, recordedLives, simulatedLives, type Lives } from "./parallel/lives";
import { BatchedView } from "./parallel/batched_view";
import { FlameGraph } from "./parallel/flame";
import { Gantt } from "./parallel/gantt";
import { LevelChart, levelWidths, SpeedupChart } from "./parallel/charts";
import { Reasons, type Held } from "./parallel/held";
import { advanced, momentsOf, playedMicros, playSeconds, stepFrom, upTo, type Moments } from "./parallel/moments";
import { passesOf } from "./parallel/passes";
import { simulate, speedups, type Speedup } from "./parallel/simulate";
import { StageView } from "./parallel/stage_view";
import { criticalPath, tasksOf, workOf, type CriticalPath, type Tasks } from "./parallel/tasks";
import { toldAt, whatHeld, whyWaited } from "./parallel/telling";

const ROWS = 7;
/** Of more steps than this the speed-up is told for some numbers of workers only. */
const MANY = 20_000;
const TOLD = [1, 2, 4, MOST_WORKERS];

const WHENCE = { scheduler: "by the scheduler", native: "by compiled code" } as const;

export function ParallelView() {
  const { model } = useStore();
  const { batching } = model.value.trace;
  const tasks = useMemo(() => tasksOf(model.value), [model.value]);
  if (batching !== undefined) return <BatchedView trace={model.value.trace} batched={batching} />;
  if (tasks.count === 0) {
    return (
      <div class="wg-view wg-parallel">
        <p class="wg-muted">Nothing was run, so there are no times.</p>
      </div>
    );
  }
  return <Demo model={model.value} tasks={tasks} />;
}

/** How many workers a page's run was last simulated with: it is again, after another run was looked at. */
const simulatedWith = new WeakMap<Signal<number>, number>();

function Demo({ model, tasks }: { model: Model; tasks: Tasks }) {
  const store = useStore();
  const path = useMemo(() => criticalPath(tasks), [tasks]);
  const given = useMemo(() => runsOf(model), [model]);
  // Which of the given runs; after the last of them, the recorded one.
  const source = useSignal(0);
  const workers = store.workers.value;
  if (workers > 0) simulatedWith.set(store.workers, workers);
  const others = simulatedWith.get(store.workers) ?? WORKERS_FIRST;
  const run = given[source.value];
  const lives = useMemo(() => livesOf(model, tasks, path, workers, run), [model, workers, run]);
  const moments = useMemo(() => momentsOf(lives), [lives]);
  const passes = useMemo(() => passesOf(model, lives), [lives]);
  const now = useClock(store, lives, moments);
  const soon = useLater(model);
  const wanted = useSignal(false);
  // Of very many steps the rest is worked out when somebody asks.
  const later = soon && (tasks.count <= MANY || wanted.value);
  // Who holds up whom is looked up when it is asked for: in a large run that is most of the work.
  const reasons = useMemo(() => ({ of: null as Reasons | null }), [lives]);
  const why = () => (reasons.of ??= new Reasons(model, lives));
  const held = useMemo(() => (later ? why().held() : null), [later, lives]);
  const pointed = useSignal(-1);
  const selected = store.selection.value;
  const chosen = selected?.kind === "node" ? rowsOf(lives, selected.row) : [];
  return (
    <div class="wg-view wg-parallel" tabIndex={0} aria-label="Parallel">
      <header class="wg-view-head">
        <h2>{shownMicros(lives.micros)}</h2>
        <span class="wg-muted">
          {lives.workers} worker{lives.workers === 1 ? "" : "s"}, {Math.round(100 * busyShare(lives))}% busy
          {workers > 0 && lives.micros > 0 && `, ${shownNumber(workOf(tasks) / lives.micros, 3)}× as fast as one`}
        </span>
        <Which workers={store.workers} others={others} source={source} names={[...given.map((run) => WHENCE[run.origin]), "as recorded"]} />
      </header>
      <Chain path={path} tasks={tasks} />
      <StageView passes={passes} now={now} />
      <Status lives={lives} moments={moments} now={now} pointed={pointed} why={why} />
      <Gantt
        lives={lives}
        chosen={chosen}
        held={held?.chain.map(({ row }) => row) ?? []}
        now={now}
        seek={(micros) => {
          store.playing.value = false;
          now.value = micros;
        }}
        choose={(row) => choose(store, lives, row)}
        hover={(row) => (pointed.value = row)}
      />
      <div class="wg-parallel-clock">
        <Transport />
        <Workers workers={store.workers} others={others} />
        <ul class="wg-key-row">
          <li class="wg-key-forward">forward</li>
          <li class="wg-key-backward">backward</li>
          <li class="wg-key-critical">critical path</li>
          <li class="wg-key-held">held up the end</li>
        </ul>
      </div>
      <div class="wg-parallel-below">
        <Critical model={model} tasks={tasks} path={path} lives={lives} held={held} />
        <More tasks={tasks} path={path} workers={workers} choose={(n) => (store.workers.value = n)} />
        <section>
          <h3>Side by side</h3>
          <LevelChart level={path.level} current={store.last.value < 0 ? -1 : (path.level[store.last.value] as number)} />
          <p class="wg-muted">
            {levelWidths(path.level).length.toLocaleString("en")} levels: a step waits only for steps of lower levels, so those of one level could run at the same time. Heights grow with the logarithm.
          </p>
        </section>
      </div>
      {chosen.length > 0 && <Life lives={lives} rows={chosen} />}
      {later && <FlameGraph model={model} lives={lives} />}
      {soon && !later && (
        <p>
          <button type="button" class="wg-button" onClick={() => (wanted.value = true)}>
            What held up the end, time by module
          </button>
        </p>
      )}
    </div>
  );
}

/** Shares of the work on the critical path above which more workers bring nothing that could be seen. */
const ALONE = 0.97;

/** Said of a run in which nothing can happen at the same time, with the way to a lesson in which things do. */
function Chain({ path, tasks }: { path: CriticalPath; tasks: Tasks }) {
  const { shelf } = useStore().host;
  if (tasks.count < 2 || path.micros < ALONE * workOf(tasks)) return null;
  const [name, next] = [shelf?.names[shelf.at + 1], (shelf?.at ?? 0) + 1];
  return (
    <p class="wg-parallel-chain">
      Every step here needs the one before it: more workers change nothing.{" "}
      {name !== undefined && (
        <button type="button" class="wg-button" onClick={() => shelf?.open(next, "parallel")}>
          See {name}
        </button>
      )}
    </p>
  );
}

const played = new WeakSet<Store>();
/** Longer runs are not played by themselves. */
const SHORT = 400;

/**
 * The clock of a schedule, in microseconds, tied to the page's: so many events have happened as rows have ended. It plays
 * by itself when it is first seen, unless less motion was asked for or a link says what to show.
 */
function useClock(store: Store, lives: Lives, moments: Moments): Signal<number> {
  const now = useSignal(0);
  const told = useRef(-1);
  const { events } = store.model.value;
  const cursorOf = (micros: number) => Math.round((upTo(moments.ends, micros) * events) / lives.count);
  const timeOf = (cursor: number) => {
    const rows = Math.round((cursor * lives.count) / events);
    return rows <= 0 ? 0 : rows >= lives.count ? lives.micros : (moments.ends[rows - 1] as number);
  };
  // Whoever else moves the page's clock moves this one; and a new schedule begins where the old one was.
  const cursor = store.cursor.value;
  useMemo(() => (now.value = timeOf(store.cursor.peek())), [lives]);
  if (cursor !== told.current) {
    told.current = cursor;
    if (cursorOf(now.peek()) !== cursor) now.value = timeOf(cursor);
  }
  useEffect(
    () =>
      now.subscribe((micros) => {
        told.current = cursorOf(micros);
        if (told.current !== store.cursor.peek()) seek(store, told.current);
      }),
    [lives],
  );
  useEffect(() => {
    store.stepping.value = (by) => (now.value = stepFrom(moments, now.peek(), by));
    return () => (store.stepping.value = null);
  }, [moments]);
  useEffect(() => {
    if (played.has(store)) return;
    played.add(store);
    if (lives.count > SHORT || reducedMotion() || store.playing.peek() || store.cursor.peek() < events) return;
    now.value = 0;
    store.playing.value = true;
  }, [store]);
  const playing = store.playing.value;
  useEffect(() => {
    if (!playing) return undefined;
    const pace = playedMicros(moments) / playSeconds(lives.count) / 1000;
    let before = performance.now();
    const tick = (time: number) => {
      // This ends when it is next painted, which may be after the next frame.
      if (!store.playing.peek()) return;
      now.value = Math.min(lives.micros, advanced(moments, now.peek(), Math.max(0, time - before) * pace));
      before = time;
      if (now.peek() >= lives.micros) store.playing.value = false;
      else frame = requestAnimationFrame(tick);
    };
    let frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing, moments]);
  return now;
}

/** What happens now; or, of what the pointer is on, why it waited. */
function Status({ lives, moments, now, pointed, why }: { lives: Lives; moments: Moments; now: Signal<number>; pointed: Signal<number>; why: () => Reasons }) {
  const store = useStore();
  const hover = store.hover.value;
  const row = pointed.value >= 0 ? pointed.value : hover?.kind === "node" ? rowNow(lives, hover.row, now.value) : -1;
  return (
    <p class="wg-parallel-status" role="status">
      {row >= 0 ? whyWaited(lives, why(), row) : toldAt(lives, moments, now.value)}
    </p>
  );
}

/** Of a node's rows the one that is told of at a moment: the last that has begun, else its first; -1 for none. */
function rowNow(lives: Lives, node: number, now: number): number {
  let found = -1;
  for (let k = 0; k < lives.count; k++) {
    const works = lives.works(k);
    if (!works.values.includes(node) && !works.gradients.includes(node)) continue;
    if (found < 0 || (lives.start[k] as number) <= now) found = k;
  }
  return found;
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

function choose(store: Store, lives: Lives, row: number): void {
  const node = lives.node[row] as number;
  if (node >= 0) reveal(store, { kind: "node", row: node });
}

function Which({ workers, others, source, names }: { workers: Signal<number>; others: number; source: Signal<number>; names: readonly string[] }) {
  return (
    <div class="wg-segments" role="group" aria-label="Which run">
      <button type="button" aria-pressed={workers.value > 0} onClick={() => (workers.value = others)}>
        simulated
      </button>
      {names.map((name, i) => (
        <button key={name} type="button" aria-pressed={workers.value === 0 && source.value === i} onClick={() => ((source.value = i), (workers.value = 0))}>
          {name}
        </button>
      ))}
    </div>
  );
}

function Workers({ workers, others }: { workers: Signal<number>; others: number }) {
  const n = workers.value;
  return (
    <label class="wg-workers">
      <span>{n === 0 ? "workers" : `${n} worker${n === 1 ? "" : "s"}`}</span>
      <input type="range" data-wg-keys min={1} max={MOST_WORKERS} step={1} value={others} aria-label="Simulated workers" onInput={(event) => (workers.value = Number(event.currentTarget.value))} />
    </label>
  );
}

function Critical({ model, tasks, path, lives, held }: { model: Model; tasks: Tasks; path: CriticalPath; lives: Lives; held: Held | null }) {
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
      <p class="wg-muted">The longest chain of steps of which each needs the one before: no number of workers is faster.</p>
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
      {held !== null && (
        <>
          <h3>What held up the end</h3>
          <Fact name="work on the way">
            {shownMicros(held.work)} of {shownMicros(lives.micros)}
          </Fact>
          <Fact name="steps">{held.chain.length.toLocaleString("en")}</Fact>
          <p class="wg-muted">{whatHeld(lives, held, path.micros)}</p>
        </>
      )}
    </section>
  );
}

function More({ tasks, path, workers, choose }: { tasks: Tasks; path: CriticalPath; workers: number; choose: (n: number) => void }) {
  const [rows, setRows] = useState<readonly Speedup[]>([]);
  useEffect(() => {
    // One number of workers at a time, so that a large graph does not hold the page.
    let timer = 0;
    const found: Speedup[] = [];
    const wanted = tasks.count > MANY ? TOLD : Array.from({ length: MOST_WORKERS }, (_, i) => i + 1);
    const next = () => {
      const n = wanted[found.length] as number;
      found.push(...speedups(tasks, path.micros, n, n));
      setRows([...found]);
      if (found.length < wanted.length) timer = window.setTimeout(next, 0);
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
        The critical path allows {shownNumber(limit, 3)}× at most (dashed). Simulated from measured times; handing over costs nothing here, so a real run is slower.
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
