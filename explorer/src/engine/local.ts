/**
 * The playground without a process behind it: a host that speaks `wengert.play/1` with the page's own engine. It does
 * what `playground/session.py` does; experiments, their controls and the graph behind the line are written from there
 * (`engine/play.json`, by scripts/generate.py).
 */
import type { Host } from "../hosts/host";
import type { Trace } from "../trace/types";
import type { Control, Experiment, Options, OptionValue } from "../views/play/messages";
import { History } from "./history";
import { FitLine, type Listing } from "./line";
import { DeadUnits, Network, Regress, Separate, Vanishing } from "./network";
import { told, settings, checked, type Numbers, type Run } from "./runs";

export interface Begun extends Experiment {
  readonly horizon: number;
  readonly pace: number;
}

export interface Playbook {
  readonly experiments: readonly Begun[];
  readonly code: Readonly<Record<"plain" | "other", Listing>>;
  readonly trace: Trace;
  /** The rows of the recorded line's parameters and loss. */
  readonly rows: Readonly<Record<string, readonly number[]>>;
}

const NETWORKS: Readonly<Record<string, new (options: Options) => Network>> = {
  separate: Separate,
  regress: Regress,
  dead: DeadUnits,
  vanishing: Vanishing,
};

export function runOf(book: Playbook, experiment: Begun, given: Options): Run {
  const options = settings(experiment.controls, given);
  const Kind = NETWORKS[experiment.name];
  return Kind === undefined ? new FitLine(options, book.code) : new Kind(options);
}

/** Milliseconds between frames, and the part of them that steps may take. */
const FRAME = 33;
const BUSY = 20;
const FURTHEST = 200_000;
const POINTS = 400;
/** A graph goes along with every frame up to so many steps a second. */
const TRACED = 5;

type Message = { readonly type: string; readonly [key: string]: unknown };

export function localHost(book: Playbook): Host {
  const listeners = new Set<(message: unknown) => void>();
  const waiting: unknown[] = [];
  let telling = false;
  // One after the other, also where hearing of one message asks for the next.
  const tell = () => {
    if (telling || listeners.size === 0) return;
    telling = true;
    while (waiting.length > 0) {
      const message = waiting.shift();
      for (const listener of listeners) listener(message);
    }
    telling = false;
  };
  const post = (message: Message) => {
    waiting.push(message);
    tell();
  };
  const session = new Session(book, post);
  return {
    kind: "local",
    send: (message) => session.receive(message as Message),
    receive(listener) {
      listeners.add(listener);
      tell();
      return () => listeners.delete(listener);
    },
  };
}

export class Session {
  private experiment: Begun;
  private past!: History;
  private runs = 0;
  private playing = false;
  private pace = 1;
  private horizon = 1;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly book: Playbook,
    private readonly post: (message: Message) => void,
  ) {
    post({ type: "welcome", protocol: "wengert.play/1", experiments: book.experiments });
    this.experiment = book.experiments[0] as Begun;
    this.begin(this.experiment, {});
  }

  receive(message: Message): void {
    try {
      this.follow(message);
    } catch (error) {
      this.post({ type: "error", text: (error as Error).message });
    }
  }

  private follow(message: Message): void {
    switch (message.type) {
      case "open": {
        const found = this.book.experiments.find(({ name }) => name === message.experiment);
        if (found === undefined) throw new Error("open: there is no such experiment");
        return this.begin(found, message.options as Options);
      }
      case "set":
        return this.set(String(message.name), message.value as OptionValue);
      case "reset": {
        const { playing } = this;
        this.begin(this.experiment, this.past.run.options);
        return this.play(playing);
      }
      case "play":
        return this.play(message.on === true);
      case "pace":
        this.pace = Number(message.value);
        return this.show();
      case "step": {
        this.play(false);
        const to = this.past.at + Number(message.count ?? 1);
        this.makeRoom(to);
        if (to < this.past.at) this.past.seek(to);
        while (this.past.at < to) this.past.advance();
        return this.show();
      }
      case "seek":
        this.play(false);
        this.past.seek(Number(message.step));
        return this.show();
      case "edit":
        this.past.edit(Number(message.parameter), Number(message.index), Number(message.value));
        return this.show();
      case "state":
        return this.post({ type: "state", run: this.runs, step: this.past.at, ...toldState(this.past.run) });
    }
  }

  private begin(experiment: Begun, given: Options): void {
    const run = runOf(this.book, experiment, given);
    this.experiment = experiment;
    this.past = new History(run);
    this.runs++;
    this.playing = false;
    this.pace = experiment.pace;
    this.horizon = experiment.horizon;
    this.post({ type: "scene", run: this.runs, experiment: experiment.name, options: { ...run.options }, ...run.scene() });
    this.show();
  }

  private set(name: string, value: OptionValue): void {
    const control = this.experiment.controls.find((c: Control) => c.name === name);
    if (control === undefined) throw new Error("set: there is no such control here");
    const next = checked(control, value);
    if (this.past.run.options[name] === next) return;
    if (!control.restarts) {
      this.past.set(name, next);
      return this.show();
    }
    const { playing, pace } = this;
    this.begin(this.experiment, { ...this.past.run.options, [name]: next });
    this.pace = pace;
    this.play(playing);
  }

  private play(on: boolean): void {
    this.playing = on;
    clearTimeout(this.timer);
    if (on) {
      if (this.past.at >= this.horizon) this.makeRoom(this.horizon + 1);
      this.timer = setTimeout(() => this.goOn(), 0);
    }
    this.show();
  }

  private makeRoom(step: number): void {
    if (step > FURTHEST) throw new Error(`a run ends at step ${FURTHEST.toLocaleString("en")}`);
    while (this.horizon < step) this.horizon = Math.min(FURTHEST, 2 * this.horizon);
  }

  /** Take the steps that are due; the run pauses at its horizon. */
  private goOn(): void {
    const began = performance.now();
    const period = Math.max(FRAME, 1000 / this.pace);
    const due = Math.max(1, Math.round((this.pace * period) / 1000));
    for (let i = 0; i < due && performance.now() - began < BUSY; i++) {
      this.past.advance();
      if (this.past.at >= this.horizon) {
        this.playing = false;
        break;
      }
    }
    this.show();
    if (this.playing) this.timer = setTimeout(() => this.goOn(), Math.max(0, period - (performance.now() - began)));
  }

  private show(): void {
    const { past, runs: run } = this;
    this.post({
      type: "frame",
      run,
      step: past.at,
      last: past.last,
      horizon: Math.max(this.horizon, past.last),
      playing: this.playing,
      pace: this.pace,
      options: { ...past.run.options },
      history: this.history(),
      diverged: past.diverged,
      drifted: false,
      fault: null,
      ...past.run.shown(),
    });
    if (this.playing && this.pace > TRACED) return;
    const document = graphOf(this.book, past.run, past.at);
    if (document !== null) this.post({ type: "trace", run, step: past.at, document });
  }

  private history(): Record<string, unknown> {
    const { at, last, series } = this.past;
    const stride = Math.max(1, Math.ceil((last + 1) / POINTS));
    const steps = [...new Set([0, at, last, ...Array.from({ length: Math.ceil((last + 1) / stride) }, (_, i) => i * stride)])].sort((a, b) => a - b);
    const found: Record<string, unknown> = { steps };
    this.experiment.series.forEach((name, i) => (found[name] = steps.map((k) => told(series[i]?.[k] as number))));
    return found;
  }
}

function toldState(run: Run): object {
  const list = (values: Numbers) => Array.from(values, told);
  const buffers = run.buffers.map((kept) => Object.fromEntries(Object.entries(kept).map(([name, v]) => [name, typeof v === "number" ? v : list(v)])));
  return { parameters: run.parameters.map(list), buffers, generator: run.draws.state, ...run.told() };
}

/** The recorded graph with the numbers of this step; only those that are single numbers are told of. */
function graphOf({ trace, rows }: Playbook, run: Run, step: number): Trace | null {
  const numbers = run.graph();
  if (numbers === null) return null;
  const filled = (old: Trace["stats"]["value"], given: Readonly<Record<string, number>>) => {
    const scalar = old.scalar.map(() => null) as typeof old.scalar;
    for (const [name, value] of Object.entries(given)) for (const row of rows[name] ?? []) scalar[row] = told(value);
    return { ...old, scalar, details: {} };
  };
  const { value, gradient } = trace.stats;
  return {
    ...trace,
    meta: { ...trace.meta, script: "Fit a line", title: `step ${step}` },
    shapes: trace.shapes.map((shape) => (shape.length === 1 ? [numbers.batch] : shape)),
    stats: { ...trace.stats, value: filled(value, numbers.values), gradient: gradient === null ? gradient : filled(gradient as typeof value, numbers.gradients) },
  };
}
