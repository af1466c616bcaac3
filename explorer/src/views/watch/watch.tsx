/** A training under way: its loss, its gradients, its updates beside its weights, its pace. */
import { signal, type Signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { COLOURS } from "../../draw/palette";
import { shownBytes, shownNumber, shownPlural, shownShape } from "../../format";
import type { Host } from "../../hosts/host";
import { CLOSED, type Received } from "../../hosts/stream";
import { mount } from "../../mount";
import { Mark, ThemeToggle } from "../../panels/header";
import { unpack } from "../../trace/decode";
import type { Trace } from "../../trace/types";
import { followTheme, preferredTheme, type Theme } from "../../state";
import { plainNumber } from "../../plot/numbers";
import styles from "../../styles/watch.css?inline";
import { Chart, type Curve } from "./chart";
import {
  activationsOf,
  clock,
  frameOf,
  modulesOf,
  othersOf,
  paceOf,
  welcomeOf,
  type Activations,
  type Frame,
  type Modules as ModuleSeries,
  type Other,
  type Pace,
  type Row,
  type Welcome,
} from "./messages";
import { Histogram, SmallCurves } from "./small";

interface Watched {
  readonly welcome: Signal<Welcome | null>;
  readonly frame: Signal<Frame | null>;
  readonly isLost: Signal<boolean>;
  /** Other runs, to be compared with. */
  readonly others: Signal<readonly Other[]>;
  readonly modules: Signal<ModuleSeries | null>;
  /** What modules gave, the newest last. */
  readonly activations: Signal<readonly Activations[]>;
  /** One step, to be looked into; null while the training is looked at. */
  readonly inside: Signal<{ readonly step: number; readonly trace: Trace } | null>;
  /** Whether a step is being recorded for the page. */
  readonly asked: Signal<boolean>;
  send(message: unknown): void;
}

/** Looks at activations that the page remembers. */
const REMEMBERED = 60;

export function mountWatch(element: HTMLElement, host: Host): { unmount(): void } {
  const theme = signal<Theme>(preferredTheme());
  const watched: Watched = {
    welcome: signal(null),
    frame: signal(null),
    isLost: signal(false),
    others: signal([]),
    modules: signal(null),
    activations: signal([]),
    inside: signal(null),
    asked: signal(false),
    send: (message) => host.send?.(message),
  };
  const end = host.receive?.((given) => {
    const message = given as Received;
    if (message.type === "welcome") watched.welcome.value = welcomeOf(message);
    if (message.type === "frame") watched.frame.value = frameOf(message);
    if (message.type === "runs") watched.others.value = othersOf(message);
    if (message.type === "modules") watched.modules.value = modulesOf(message);
    if (message.type === "activations") watched.activations.value = [...watched.activations.value, activationsOf(message)].slice(-REMEMBERED);
    if (message.type === "inside" && watched.asked.value) {
      watched.asked.value = false;
      void unpack(String(message.document)).then((trace) => (watched.inside.value = { step: Number(message.step), trace }));
    }
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
  const [welcome, frame, inside] = [watched.welcome.value, watched.frame.value, watched.inside.value];
  if (inside !== null) return <Inside step={inside.step} trace={inside.trace} theme={theme.peek()} back={() => (watched.inside.value = null)} />;
  document.documentElement.dataset.wgTheme = theme.value;
  return (
    <div class="wg-app wg-watch" data-wg-theme={theme.value}>
      <style>{COLOURS + styles}</style>
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
        {frame !== null && !watched.isLost.value && <Controls watched={watched} frame={frame} />}
        {frame !== null && <StateWord frame={frame} isLost={watched.isLost.value} />}
        <ThemeToggle theme={theme} />
      </header>
      {welcome !== null && frame !== null ? <Body watched={watched} welcome={welcome} frame={frame} /> : <p class="wg-watch-wait">Waiting for the first step …</p>}
    </div>
  );
}

const isUnderWay = ({ state }: Frame) => state === "training" || state === "validating";

/** Pause, one step, a look inside one, and back to a step whose state was kept. */
function Controls({ watched, frame }: { watched: Watched; frame: Frame }) {
  if (!isUnderWay(frame)) return null;
  const { paused, checkpoints } = frame;
  const asked = watched.asked.value;
  return (
    <div class="wg-watch-controls" role="group" aria-label="The training">
      <button class="wg-button" type="button" onClick={() => watched.send({ type: "pause", on: !paused })}>
        {paused ? "Go on" : "Pause"}
      </button>
      {paused && (
        <button class="wg-button" type="button" onClick={() => watched.send({ type: "step" })}>
          One step
        </button>
      )}
      <button
        class="wg-button"
        type="button"
        disabled={asked}
        title="Records the next step, and opens it"
        onClick={() => {
          watched.asked.value = true;
          watched.send({ type: "look" });
        }}
      >
        {asked ? "Recording …" : "Look inside a step"}
      </button>
      {checkpoints.length > 0 && (
        <select
          class="wg-button"
          aria-label="Back to a step"
          title="Puts weights and optimiser of an earlier step back; the data go on"
          value=""
          onChange={(event) => {
            watched.send({ type: "back", step: Number(event.currentTarget.value) });
            event.currentTarget.value = "";
          }}
        >
          <option value="" disabled>
            Back to …
          </option>
          {checkpoints.toReversed().map((step) => (
            <option key={step} value={step}>
              step {step.toLocaleString("en")}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}

/** One step of the training in the explorer, and the way back to it. */
function Inside({ step, trace, theme, back }: { step: number; trace: Trace; theme: Theme; back: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = place.current;
    if (at === null) return undefined;
    const mounted = mount(at, trace, { kind: "widget" });
    mounted.store.theme.value = theme;
    return () => mounted.unmount();
  }, [trace]);
  return (
    <div class="wg-watch-inside">
      <style>{styles}</style>
      <button class="wg-watch-back" type="button" onClick={back}>
        ← Back to the training <span>(this was step {step.toLocaleString("en")})</span>
      </button>
      <div ref={place} />
    </div>
  );
}

function StateWord({ frame, isLost }: { frame: Frame; isLost: boolean }) {
  const state = isLost && isUnderWay(frame) ? "lost" : frame.paused && isUnderWay(frame) ? "paused" : frame.state;
  const words = { paused: "paused", training: "training", validating: "validating", finished: "finished", stopped: "stopped", failed: "failed", lost: "the process has gone" };
  return (
    <p class={`wg-watch-state is-${state}`} role="status" title={frame.note}>
      <i aria-hidden="true" />
      {words[state]}
    </p>
  );
}

function Body({ watched, welcome, frame }: { watched: Watched; welcome: Welcome; frame: Frame }) {
  return (
    <main class="wg-watch-body">
      <Facts frame={frame} />
      {frame.note !== "" && <pre class={`wg-watch-note is-${frame.state}`}>{frame.note}</pre>}
      <div class="wg-watch-charts">
        <LossCard frame={frame} others={watched.others.value} />
        <NormCard frame={frame} every={welcome.every} />
      </div>
      <Modules modules={watched.modules.value} />
      <ActivationsCard looks={watched.activations.value} />
      <div class="wg-watch-tables">
        <Parameters welcome={welcome} frame={frame} />
        {(frame.epochs > 0 || frame.rows.length > 0) && <Epochs rows={frame.rows} />}
      </div>
    </main>
  );
}

function Facts({ frame }: { frame: Frame }) {
  const perSecond = (n: number) => (n >= 1 || n === 0 ? shownNumber(n, 3) : `1 in ${shownNumber(1 / n, 2)} s`);
  const isOver = !isUnderWay(frame);
  const mean = frame.seconds > 0 ? shownNumber(frame.step / frame.seconds, 3) : "–";
  const whose = frame.valued < frame.step ? `of step ${frame.valued.toLocaleString("en")}` : "of the last step";
  const facts: (readonly [string, string, string])[] = [
    ["loss", shownNumber(frame.values.loss ?? Number.NaN), whose],
    ["step", frame.step.toLocaleString("en"), frame.epochs > 0 ? `epoch ${Math.min(frame.epoch, frame.epochs)} of ${frame.epochs}` : "so far"],
    isOver
      ? ["steps / s", mean, "over all"]
      : frame.rate > 0
        ? ["steps / s", perSecond(frame.rate), `${shownNumber(1000 / frame.rate, 3)} ms a step`]
        : ["steps / s", frame.seconds > frame.idle ? perSecond(frame.step / (frame.seconds - frame.idle)) : "–", `none for ${clock(frame.idle)}`],
    ["time", clock(frame.seconds), "since it began"],
    ["memory", frame.memory > 0 ? shownBytes(frame.memory) : "–", "of the process"],
  ];
  for (const [name, value] of Object.entries(frame.values)) if (name !== "loss") facts.push([name, shownNumber(value), whose]);
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

/** A small curve for each module: gradient norms, or updates by weights. */
function Modules({ modules }: { modules: ModuleSeries | null }) {
  const [what, setWhat] = useState<"norm" | "ratio">("norm");
  if (modules === null || modules.names.length < 2 || modules.steps.length === 0) return null;
  return (
    <section class="wg-watch-card is-small-charts">
      <h2>
        By module <small>{what === "norm" ? "gradient norms" : "updates by weights"}, logarithmic, one scale for all</small>
        <span class="wg-watch-choice" role="group" aria-label="What is shown">
          {(["norm", "ratio"] as const).map((kind) => (
            <button key={kind} type="button" aria-pressed={what === kind} onClick={() => setWhat(kind)}>
              {kind === "norm" ? "gradient" : "update / weight"}
            </button>
          ))}
        </span>
      </h2>
      <SmallCurves names={modules.names} steps={modules.steps} values={modules[what]} />
    </section>
  );
}

/** Histograms of what modules gave; earlier looks can be chosen. */
function ActivationsCard({ looks }: { looks: readonly Activations[] }) {
  const [at, setAt] = useState(-1);
  const shown = looks[at < 0 ? looks.length - 1 : Math.min(at, looks.length - 1)];
  if (shown === undefined) return null;
  return (
    <section class="wg-watch-card is-small-charts">
      <h2>
        Activations <small>what modules gave in step {shown.step.toLocaleString("en")}</small>
        {looks.length > 1 && (
          <input
            type="range"
            min={0}
            max={looks.length - 1}
            value={at < 0 ? looks.length - 1 : at}
            aria-label="Step of the activations"
            aria-valuetext={`step ${shown.step}`}
            onInput={(event) => {
              const to = event.currentTarget.valueAsNumber;
              setAt(to === looks.length - 1 ? -1 : to);
            }}
          />
        )}
      </h2>
      <div class="wg-watch-grid">
        {shown.list.map((activation) => (
          <Histogram key={activation.name} activation={activation} />
        ))}
      </div>
    </section>
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

function NormCard({ frame, every }: { frame: Frame; every: number | null }) {
  const curve: Curve = { label: "norm", x: frame.normSteps, y: frame.norm, look: "grad" };
  return (
    <section class="wg-watch-card">
      <h2>
        Gradient norm <small>of all parameters, {every === null ? "now and then" : `every ${shownPlural(every, "step").replace(/^1 /, "")}`}</small>
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
    <section class="wg-watch-card is-table is-parameters">
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
