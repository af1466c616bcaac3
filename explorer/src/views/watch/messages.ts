/** What the process tells of a training: `wengert.watch/1`, as in src/wengert/explorer/watch.py. */
import type { Received } from "../../hosts/stream";
import { num } from "../../trace/decode";

export interface Parameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly size: number;
}

export interface Welcome {
  readonly title: string;
  readonly parameters: readonly Parameter[];
  /** Steps between two samples; null where they come as often as costs little. */
  readonly every: number | null;
}

export type State = "training" | "validating" | "finished" | "stopped" | "failed" | "lost";

/** A row of the epochs' table. */
export type Row = Readonly<Record<string, number>>;

export interface Frame {
  readonly state: State;
  readonly note: string;
  readonly step: number;
  readonly epoch: number;
  readonly epochs: number;
  readonly seconds: number;
  readonly rate: number;
  /** Seconds without a step. */
  readonly idle: number;
  readonly memory: number;
  readonly sampled: number;
  readonly paused: boolean;
  /** Steps whose state can be put back. */
  readonly checkpoints: readonly number[];
  /** At which steps it went back, and to which. */
  readonly returns: readonly (readonly [at: number, to: number])[];
  /** Of the last step that was told of, and which it is: of fast ones not all are. */
  readonly values: Row;
  readonly valued: number;
  readonly rows: readonly Row[];
  /** Points of the loss: first steps, means, and how far the values under a point reach. */
  readonly steps: Float32Array;
  readonly mean: Float32Array;
  readonly low: Float32Array;
  readonly high: Float32Array;
  readonly smooth: Float32Array;
  readonly normSteps: Float32Array;
  readonly norm: Float32Array;
  /** Of each parameter, in their order; empty before the first sample. */
  readonly gradient: Float32Array;
  readonly weight: Float32Array;
  readonly ratio: Float32Array;
}

/** Another run in the same folder. */
export interface Other {
  readonly title: string;
  readonly steps: Float32Array;
  readonly loss: Float32Array;
}

/** Gradient norms, and updates by weights, of modules over the steps. */
export interface Modules {
  readonly names: readonly string[];
  readonly steps: Float32Array;
  readonly norm: readonly Float32Array[];
  readonly ratio: readonly Float32Array[];
}

/** How what a module gave is distributed: bars of equal width from `low` to `high`. */
export interface Activation {
  readonly name: string;
  readonly counts: Float32Array;
  readonly low: number;
  readonly high: number;
  readonly mean: number;
  readonly std: number;
  /** Share of zeros, and how many elements were no finite numbers. */
  readonly zeros: number;
  readonly bad: number;
}

export interface Activations {
  readonly step: number;
  readonly list: readonly Activation[];
}

const arrayOf = (message: Received, name: string) => (message.arrays[name] as Float32Array | undefined) ?? new Float32Array();

export function modulesOf(message: Received): Modules {
  const names = message.names as string[];
  const all = (kind: string) => names.map((_, i) => arrayOf(message, `${kind}${i}`));
  return { names, steps: arrayOf(message, "steps"), norm: all("norm"), ratio: all("ratio") };
}

export function activationsOf(message: Received): Activations {
  const names = message.names as string[];
  const counts = arrayOf(message, "counts");
  const bars = counts.length / Math.max(1, names.length);
  const column = (name: string) => arrayOf(message, name);
  const columns = { low: column("low"), high: column("high"), mean: column("mean"), std: column("std"), zeros: column("zeros"), bad: column("bad") };
  const list = names.map((name, i) => ({
    name,
    counts: counts.subarray(i * bars, (i + 1) * bars),
    low: columns.low[i] as number,
    high: columns.high[i] as number,
    mean: columns.mean[i] as number,
    std: columns.std[i] as number,
    zeros: columns.zeros[i] as number,
    bad: columns.bad[i] as number,
  }));
  return { step: Number(message.step), list };
}

export function othersOf(message: Received): Other[] {
  const array = (name: string) => arrayOf(message, name);
  return (message.titles as string[]).map((title, i) => ({ title, steps: array(`steps${i}`), loss: array(`loss${i}`) }));
}

const numbers = (given: unknown): Row =>
  Object.fromEntries(Object.entries(given as Record<string, number | "nan" | "inf" | "-inf">).map(([name, value]) => [name, num(value)]));

export function welcomeOf(message: Received): Welcome {
  return message as unknown as Welcome;
}

export function frameOf(message: Received): Frame {
  const told = message as unknown as Frame;
  const array = (name: string) => arrayOf(message, name);
  return {
    ...told,
    values: numbers(told.values),
    rows: told.rows.map(numbers),
    steps: array("steps"),
    mean: array("mean"),
    low: array("low"),
    high: array("high"),
    smooth: array("smooth"),
    normSteps: array("norm_steps"),
    norm: array("norm"),
    gradient: array("gradient"),
    weight: array("weight"),
    ratio: array("ratio"),
  };
}

/** How large an update is beside its weights: about a thousandth is usual. */
export type Pace = "still" | "usual" | "fast" | "unknown";

export function paceOf(ratio: number): Pace {
  if (!Number.isFinite(ratio)) return "unknown";
  if (ratio < 1e-5) return "still";
  return ratio > 3e-2 ? "fast" : "usual";
}

/** 3:07, or 1:02:45. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const two = (n: number) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
