/** A training under way: its loss, its gradients, its updates beside its weights, its pace. */
import { signal, type Signal } from "@preact/signals";
import { render } from "preact";
import { useState } from "preact/hooks";
import { shownBytes, shownNumber, shownPlural, shownShape } from "../../format";
import type { Host } from "../../hosts/host";
import { CLOSED, type Received } from "../../hosts/stream";
import { Mark, ThemeToggle } from "../../panels/header";
import { followTheme, preferredTheme, type Theme } from "../../state";
import { plainNumber } from "../../plot/numbers";
import styles from "../../styles/watch.css?inline";
import { Chart, type Curve } from "./chart";
import { clock, frameOf, othersOf, paceOf, welcomeOf, type Frame, type Other, type Pace, type Row, type Welcome } from "./messages";

interface Watched {
  readonly welcome: Signal<Welcome | null>;
  readonly frame: Signal<Frame | null>;
  readonly isLost: Signal<boolean>;
  /** Other runs, to be compared with. */
  readonly others: Signal<readonly Other[]>;
}

export function mountWatch(element: HTMLElement, host: Host): { unmount(): void } {
  const theme = signal<Theme>(preferredTheme());
  const watched: Watched = { welcome: signal(null), frame: signal(null), isLost: signal(false), others: signal([]) };
  const end = host.receive?.((given) => {
    const message = given as Received;
    if (message.type === "welcome") watched.welcome.value = welcomeOf(message);
    if (message.type === "frame") watched.frame.value = frameOf(message);
    if (message.type === "runs") watched.others.value = othersOf(message);
    if (message.type === CLOSED) watched.isLost.value = true;
  });
  const unfollow = followTheme({ theme });
  element.classList.add("wg-host");
  render(<Page watched={watched} theme={theme} />, element);
  return {
    unmount() {
      end?.();
      unfollow();
      render(null, element);
      element.classList.remove("wg-host");
    },
  };
}

function Page({ watched, theme }: { watched: Watched; theme: Signal<Theme> }) {
  const [welcome, frame] = [watched.welcome.value, watched.frame.value];
  document.documentElement.dataset.wgTheme = theme.value;
  return (
    <div class="wg-app wg-watch" data-wg-theme={theme.value}>
      <style>{styles}</style>
      <header class="wg-header">
        <div class="wg-brand">
          <Mark />
          <b>wengert</b>
        </div>
        <div class="wg-title">
          <span>training</span>
          <span aria-hidden="true"> / </span>
          <b>{welcome?.title ?? ""}</b>
        </div>
        {frame !== null && <StateWord frame={frame} isLost={watched.isLost.value} />}
        <ThemeToggle theme={theme} />
      </header>
      {welcome !== null && frame !== null ? <Body welcome={welcome} frame={frame} others={watched.others.value} /> : <p class="wg-watch-wait">Waiting for the first step …</p>}
    </div>
  );
}

function StateWord({ frame, isLost }: { frame: Frame; isLost: boolean }) {
  const isUnderWay = frame.state === "training" || frame.state === "validating";
  const state = isLost && isUnderWay ? "lost" : frame.state;
  const words = { training: "training", validating: "validating", finished: "finished", stopped: "stopped", failed: "failed", lost: "the process has gone" };
  return (
    <p class={`wg-watch-state is-${state}`} role="status" title={frame.note}>
      <i aria-hidden="true" />
      {words[state]}
    </p>
  );
}

function Body({ welcome, frame, others }: { welcome: Welcome; frame: Frame; others: readonly Other[] }) {
  return (
    <main class="wg-watch-body">
      <Facts frame={frame} />
      {frame.note !== "" && <pre class={`wg-watch-note is-${frame.state}`}>{frame.note}</pre>}
      <div class="wg-watch-charts">
        <LossCard frame={frame} others={others} />
        <NormCard frame={frame} every={welcome.every} />
      </div>
      <div class="wg-watch-tables">
        <Parameters welcome={welcome} frame={frame} />
        <Epochs rows={frame.rows} />
      </div>
    </main>
  );
}

function Facts({ frame }: { frame: Frame }) {
  const rate = frame.rate >= 1 || frame.rate === 0 ? shownNumber(frame.rate, 3) : `1 in ${shownNumber(1 / frame.rate, 2)} s`;
  const isOver = frame.state !== "training" && frame.state !== "validating";
  const mean = frame.seconds > 0 ? shownNumber(frame.step / frame.seconds, 3) : "–";
  const facts: (readonly [string, string, string])[] = [
    ["loss", shownNumber(frame.values.loss ?? Number.NaN), "of the last step"],
    ["step", frame.step.toLocaleString("en"), frame.epochs > 0 ? `epoch ${Math.min(frame.epoch, frame.epochs)} of ${frame.epochs}` : "so far"],
    isOver ? ["steps / s", mean, "over all"] : ["steps / s", rate, "over three seconds"],
    ["time", clock(frame.seconds), "since it began"],
    ["memory", frame.memory > 0 ? shownBytes(frame.memory) : "–", "of the process"],
  ];
  for (const [name, value] of Object.entries(frame.values)) if (name !== "loss") facts.push([name, shownNumber(value), "of the last step"]);
  return (
    <dl class="wg-watch-facts">
      {facts.slice(0, 8).map(([name, value, aside]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          <small>{aside}</small>
        </div>
      ))}
    </dl>
  );
}

function LossCard({ frame, others }: { frame: Frame; others: readonly Other[] }) {
  const [log, setLog] = useState(false);
  const validated = frame.rows.filter((row) => row.val_loss !== undefined && row.step !== undefined);
  const curves: Curve[] = [
    { label: "loss", x: frame.steps, y: frame.mean, look: "faint" },
    { label: "smoothed", x: frame.steps, y: frame.smooth, look: "ink" },
  ];
  others.forEach(({ title, steps, loss }, i) => curves.push({ label: title, x: steps, y: loss, look: `other-${(i % 4) as 0 | 1 | 2 | 3}` }));
  if (validated.length > 0) {
    const column = (name: string) => validated.map((row) => row[name] as number);
    curves.push({ label: "validation", x: column("step"), y: column("val_loss"), look: "dots" });
  }
  return (
    <section class="wg-watch-card">
      <h2>
        Loss
        <Legend curves={curves} />
        <label class="wg-watch-log">
          <input type="checkbox" checked={log} onChange={() => setLog(!log)} /> logarithmic
        </label>
      </h2>
      <Chart curves={curves} band={{ x: frame.steps, low: frame.low, high: frame.high }} log={log} label="Loss" />
    </section>
  );
}

function NormCard({ frame, every }: { frame: Frame; every: number }) {
  const curve: Curve = { label: "norm", x: frame.normSteps, y: frame.norm, look: "grad" };
  return (
    <section class="wg-watch-card">
      <h2>
        Gradient norm <small>of all parameters, every {shownPlural(every, "step").replace(/^1 /, "")}</small>
      </h2>
      {frame.norm.length > 0 ? (
        <Chart curves={[curve]} log label="Gradient norm" />
      ) : (
        <p class="wg-muted">No gradients were there to be looked at: the step forgets them, or none was sampled yet.</p>
      )}
    </section>
  );
}

function Legend({ curves }: { curves: readonly Curve[] }) {
  return (
    <span class="wg-watch-legend">
      {curves.map(({ label, look }) => (
        <span key={label}>
          <svg width="22" height="10" aria-hidden="true">
            <path class={`wg-watch-curve is-${look}`} d="M1 5H21" />
            {look === "dots" && <circle class="wg-watch-dot" cx="11" cy="5" r="3.2" />}
          </svg>
          {label}
        </span>
      ))}
    </span>
  );
}

const PACES: Record<Pace, string> = { still: "hardly moves", usual: "", fast: "moves fast", unknown: "" };
/** The axis of update by weight: 10⁻⁶ to 1. */
const share = (ratio: number) => Math.min(1, Math.max(0, (Math.log10(ratio) + 6) / 6));

function Parameters({ welcome, frame }: { welcome: Welcome; frame: Frame }) {
  const total = welcome.parameters.reduce((n, { size }) => n + size, 0);
  return (
    <section class="wg-watch-card is-table">
      <h2>
        Parameters <small>{frame.sampled > 0 ? `as they were in step ${frame.sampled.toLocaleString("en")}` : "no sample yet"}</small>
      </h2>
      <div class="wg-watch-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">{shownPlural(total, "number")}</th>
              <th scope="col">shape</th>
              <th scope="col">gradient</th>
              <th scope="col">weight</th>
              <th scope="col" class="is-wide">
                update / weight
              </th>
            </tr>
          </thead>
          <tbody>
            {welcome.parameters.map(({ name, shape }, i) => {
              const ratio = frame.ratio[i] ?? Number.NaN;
              const pace = paceOf(ratio);
              return (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="wg-muted">{shownShape(shape)}</td>
                  <Cell value={frame.gradient[i]} />
                  <Cell value={frame.weight[i]} />
                  <td class="is-wide">
                    <div class={`wg-watch-ratio is-${pace}`}>
                      <span class="wg-watch-bar" aria-hidden="true">
                        <i style={{ width: `${100 * (Number.isFinite(ratio) ? share(ratio) : 0)}%` }} />
                        <b style={{ left: `${100 * share(1e-3)}%` }} />
                      </span>
                      <span>{Number.isNaN(ratio) ? "–" : shownNumber(ratio, 2)}</span>
                      <small>{PACES[pace]}</small>
                    </div>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="wg-watch-foot">Norms. The mark is at 0.001: updates of about that size are usual.</p>
    </section>
  );
}

function Cell({ value }: { value: number | undefined }) {
  const isBad = value !== undefined && !Number.isFinite(value) && !Number.isNaN(value);
  return <td class={isBad ? "wg-bad" : ""}>{value === undefined || Number.isNaN(value) ? "–" : plainNumber(value)}</td>;
}

const LEFT_OUT = new Set(["epoch", "step", "seconds", "data_seconds", "step_seconds", "rows_per_second"]);

function Epochs({ rows }: { rows: readonly Row[] }) {
  const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => !LEFT_OUT.has(name));
  return (
    <section class="wg-watch-card is-table">
      <h2>
        Epochs <small>the newest first</small>
      </h2>
      {rows.length === 0 ? (
        <p class="wg-muted">None has ended yet.</p>
      ) : (
        <div class="wg-watch-scroll">
          <table>
            <thead>
              <tr>
                {["epoch", ...names].map((name) => (
                  <th key={name} scope="col">
                    {name.replaceAll("_", " ")}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.toReversed().map((row) => (
                <tr key={row.epoch}>
                  <th scope="row">{row.epoch}</th>
                  {names.map((name) => (
                    <td key={name}>{row[name] === undefined ? "–" : shownNumber(row[name])}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
