/** Training runs of the page's own engine: what `playground/run.py` and its experiments are to Wengert. */
import type { Num } from "../trace/types";
import type { Control, Options, OptionValue } from "../views/play/messages";
import { Draws, type DrawState } from "./draws";
import { copied, type Buffers } from "./optimizer";

export type Numbers = Float32Array | Float64Array;
export type Arrays = Readonly<Record<string, Uint8Array | Float32Array>>;

export interface Shown {
  readonly values: unknown;
  readonly arrays: Arrays;
}

export interface State {
  readonly options: Options;
  readonly parameters: readonly Numbers[];
  readonly buffers: readonly Buffers[];
  readonly draws: DrawState;
}

export abstract class Run {
  options: Record<string, OptionValue>;
  readonly draws: Draws;
  buffers: Buffers[] = [];
  abstract readonly parameters: readonly Numbers[];

  constructor(options: Options) {
    this.options = { ...options };
    this.draws = new Draws(Number(options.seed));
  }

  abstract step(): void;
  abstract measure(): number[];
  abstract scene(): Shown;
  abstract shown(): Shown;
  /** The values behind the graph of a step, by name; null where none is drawn. */
  graph(): GraphNumbers | null {
    return null;
  }
  /** What a script of its own needs besides parameters, buffers and generator. */
  told(): object {
    return {};
  }

  set(name: string, value: OptionValue): void {
    this.options[name] = value;
    if (name === "method") this.buffers = [];
  }

  edit(parameter: number, index: number, value: number): void {
    const changed = this.parameters[parameter];
    if (changed === undefined || index >= changed.length) throw new Error("edit: there is no such number");
    changed[index] = value;
  }

  save(): State {
    return { options: { ...this.options }, parameters: this.parameters.map((p) => p.slice()), buffers: copied(this.buffers), draws: this.draws.state };
  }

  load(state: State): void {
    this.options = { ...state.options };
    this.parameters.forEach((p, i) => p.set(state.parameters[i] as Numbers));
    this.buffers = copied(state.buffers);
    this.draws.state = state.draws;
  }
}

export interface GraphNumbers {
  readonly batch: number;
  readonly values: Readonly<Record<string, number>>;
  readonly gradients: Readonly<Record<string, number>>;
}

/** JSON has no infinities: they travel as words. */
export function told(value: number): Num {
  return Number.isFinite(value) ? value : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/** Half of them to the even number, as Python rounds. */
export function rounded(value: number): number {
  const low = Math.floor(value);
  const half = value - low === 0.5;
  return half ? low + (low % 2) : Math.round(value);
}

/** A value as its control allows it. Throws an Error that says what is allowed. */
export function checked(control: Control, value: OptionValue): OptionValue {
  const wrong = (what: string) => new Error(`${control.label} is ${what}, not ${JSON.stringify(value)}`);
  switch (control.kind) {
    case "switch":
      if (typeof value !== "boolean") throw wrong("on or off");
      return value;
    case "choice":
      if (!control.choices.includes(String(value))) throw wrong(`one of ${control.choices.join(", ")}`);
      return value;
    case "text":
      if (typeof value !== "string" || value.length > control.longest) throw new Error(`${control.label} is a text of at most ${control.longest} characters`);
      return value;
    case "number":
      if (typeof value !== "number" || !(value >= control.low && value <= control.high)) throw wrong(`${control.low} to ${control.high}`);
      if (control.whole && !Number.isInteger(value)) throw wrong("a whole number");
      return value;
  }
}

export function settings(controls: readonly Control[], given: Options): Record<string, OptionValue> {
  const unknown = Object.keys(given).find((name) => !controls.some((control) => control.name === name));
  if (unknown !== undefined) throw new Error(`there is nothing called ${unknown} to set here`);
  return Object.fromEntries(controls.map((c) => [c.name, given[c.name] === undefined ? c.default : checked(c, given[c.name] as OptionValue)]));
}
