/** Who did what, when: the run as it was recorded, as the scheduler or the native runtime ran it, or as it might be. */
import { nameOf, opOf, type Model } from "../../trace/model";
import { PHASES, type Parallel } from "../../trace/types";
import type { Schedule } from "./simulate";
import type { CriticalPath, Tasks } from "./tasks";

/** Rows of pieces of work; times in microseconds. `done` is when their consumers knew. */
export interface Lives {
  count: number;
  workers: number;
  worker: Int32Array;
  ready: Float64Array;
  start: Float64Array;
  end: Float64Array;
  done: Float64Array;
  /** The node that a row works on, or -1. */
  node: Int32Array;
  /** All nodes whose values, or whose gradients, a row computes: several where it is a kernel's. */
  works: (row: number) => Works;
  /** Gradients are computed, not values. */
  backward: Uint8Array;
  micros: number;
  /** Rows that work on what is on the graph's critical path: no worker's doing, and the same whoever ran it. */
  critical: Uint8Array;
  label: (row: number) => string;
  /** What a row's time is counted under: an operation, or a kernel. */
  kind: (row: number) => string;
}

export interface Works {
  values: readonly number[];
  gradients: readonly number[];
}

const NONE: readonly number[] = [];

/** One node's value, or its gradient. */
function worksOn(node: number, backward: boolean): Works {
  const nodes = node < 0 ? NONE : [node];
  return backward ? { values: NONE, gradients: nodes } : { values: nodes, gradients: NONE };
}

/** Each event works on one node. Parameters are updated when everything of the graph is done: that is no node's work. */
function eventWorks(model: Model): (row: number) => Works {
  const { phase, node } = model.trace.events;
  return (row) => {
    const what = PHASES[phase[row] as number];
    return worksOn(what === "forward" || what === "backward" ? (node[row] as number) : -1, what === "backward");
  };
}

export function recordedLives(model: Model, tasks: Tasks, path: CriticalPath): Lives {
  const { t0, dur, thread, node } = model.trace.events;
  const begin = t0.reduce((least, t) => Math.min(least, t), Number.POSITIVE_INFINITY);
  const start = new Float64Array(t0).map((t) => t - begin);
  const end = start.map((t, k) => t + (dur[k] as number));
  const ids = [...new Set(thread)].sort((a, b) => a - b);
  const row = new Map(ids.map((id, i) => [id, i]));
  return {
    count: tasks.count,
    workers: ids.length,
    worker: new Int32Array(thread).map((id) => row.get(id) as number),
    ready: readyTimes(tasks, end),
    start,
    end,
    done: end,
    node: new Int32Array(node),
    works: eventWorks(model),
    backward: backwardRows(model),
    micros: end.reduce((most, t) => Math.max(most, t), 0),
    critical: path.onPath,
    label: (k) => eventLabel(model, k),
    kind: (k) => opLabel(model, model.trace.events.node[k] as number),
  };
}

export function simulatedLives(model: Model, tasks: Tasks, path: CriticalPath, schedule: Schedule, workers: number): Lives {
  const end = schedule.start.map((t, k) => t + (tasks.dur[k] as number));
  return {
    count: tasks.count,
    workers,
    worker: schedule.worker,
    ready: readyTimes(tasks, end),
    start: schedule.start,
    end,
    done: end,
    node: new Int32Array(model.trace.events.node),
    works: eventWorks(model),
    backward: backwardRows(model),
    micros: schedule.micros,
    critical: path.onPath,
    label: (k) => eventLabel(model, k),
    kind: (k) => opLabel(model, model.trace.events.node[k] as number),
  };
}

export function parallelLives(model: Model, run: Parallel, path: CriticalPath): Lives {
  const count = run.worker.length;
  // Until the scheduler's first begins, its threads are only being started.
  const first = (run.origin === "scheduler" ? run.start : run.ready).reduce((least, t) => Math.min(least, t), Number.POSITIVE_INFINITY);
  const shifted = (column: readonly number[]) => Float64Array.from(column, (t) => Math.max(0, t - first));
  const [ready, start, end, done] = [run.ready, run.start, run.end, run.done].map(shifted) as [Float64Array, Float64Array, Float64Array, Float64Array];
  const kernels = model.trace.kernels?.list ?? [];
  const kernelAt = (row: number) => kernels[run.kernel?.[row] ?? -1];
  const isGradient = (row: number) => run.gradient?.[row] === 1;
  const onPath = (event: number | undefined) => event !== undefined && event >= 0 && path.onPath[event] === 1;
  const isCritical = (row: number) => {
    const kernel = kernelAt(row);
    if (kernel === undefined) return onPath((isGradient(row) ? model.backwardAt : model.forwardAt)[run.node[row] as number]);
    return kernel.nodes.some((n) => onPath(model.forwardAt[n])) || kernel.gradients.some((n) => onPath(model.backwardAt[n]));
  };
  return {
    count,
    workers: run.workers,
    worker: Int32Array.from(run.worker),
    ready,
    start,
    end,
    done,
    node: Int32Array.from(run.node, (node, row) => (node >= 0 ? node : (kernelAt(row)?.nodes[0] ?? kernelAt(row)?.gradients[0] ?? -1))),
    works: (row) => {
      const kernel = kernelAt(row);
      return kernel === undefined ? worksOn(run.node[row] as number, isGradient(row)) : { values: kernel.nodes, gradients: kernel.gradients };
    },
    backward: Uint8Array.from(run.node, (_, row) => (isGradient(row) || kernelAt(row)?.phase === "backward" ? 1 : 0)),
    micros: end.reduce((most, t) => Math.max(most, t), 0),
    critical: Uint8Array.from({ length: count }, (_, row) => (isCritical(row) ? 1 : 0)),
    label: (row) => kernelAt(row)?.name ?? `${nodeLabel(model, run.node[row] as number)}, ${isGradient(row) ? "backward" : "forward"}`,
    kind: (row) => kernelAt(row)?.name ?? opLabel(model, run.node[row] as number),
  };
}

function readyTimes(tasks: Tasks, end: Float64Array): Float64Array {
  const ready = new Float64Array(tasks.count);
  for (let k = 0; k < tasks.count; k++) {
    for (let i = tasks.start[k] as number; i < (tasks.start[k + 1] as number); i++) {
      ready[k] = Math.max(ready[k] as number, end[tasks.before[i] as number] as number);
    }
  }
  return ready;
}

function backwardRows(model: Model): Uint8Array {
  const backward = PHASES.indexOf("backward");
  return new Uint8Array(model.trace.events.phase).map((phase) => (phase === backward ? 1 : 0));
}

function eventLabel(model: Model, event: number): string {
  const node = model.trace.events.node[event] as number;
  const phase = PHASES[model.trace.events.phase[event] as number] ?? "forward";
  return `${nodeLabel(model, node)}, ${phase}`;
}

function nodeLabel(model: Model, node: number): string {
  if (node < 0) return "other work";
  const name = nameOf(model, node);
  return name === "" ? opOf(model, node) : `${name} = ${opOf(model, node)}`;
}

function opLabel(model: Model, node: number): string {
  return node < 0 ? "other" : opOf(model, node);
}

/** What the critical path is made of: time by operation, the longest first. */
export function criticalByKind(model: Model, tasks: Tasks, path: CriticalPath): { op: string; micros: number; count: number }[] {
  const sums = new Map<string, { op: string; micros: number; count: number }>();
  for (const k of path.tasks) {
    const phase = PHASES[model.trace.events.phase[k] as number] ?? "forward";
    const op = `${opLabel(model, model.trace.events.node[k] as number)}${phase === "forward" ? "" : `, ${phase}`}`;
    const sum = sums.get(op) ?? { op, micros: 0, count: 0 };
    sum.micros += tasks.dur[k] as number;
    sum.count++;
    sums.set(op, sum);
  }
  return [...sums.values()].sort((a, b) => b.micros - a.micros);
}

/** What one worker did of one step, in however many ranges. */
export interface Part {
  label: string;
  worker: number;
  ranges: number;
  waits: number;
  runs: number;
  handsOn: number;
}

export function partsOf(lives: Lives, rows: readonly number[]): Part[] {
  const parts = new Map<string, Part>();
  for (const k of rows) {
    const [worker, ready, start, end, done] = [lives.worker, lives.ready, lives.start, lives.end, lives.done].map((column) => column[k]) as [number, number, number, number, number];
    const label = lives.label(k);
    const key = `${worker} ${ready} ${done} ${label}`;
    const part = parts.get(key) ?? { label, worker, ranges: 0, waits: Number.POSITIVE_INFINITY, runs: 0, handsOn: Number.POSITIVE_INFINITY };
    part.ranges++;
    part.waits = Math.min(part.waits, Math.max(0, start - ready));
    part.runs += end - start;
    part.handsOn = Math.min(part.handsOn, done - end);
    parts.set(key, part);
  }
  return [...parts.values()];
}

/** How busy the workers were, 0 to 1. */
export function busyShare(lives: Lives): number {
  return lives.micros > 0 ? busyMicros(lives) / (lives.micros * lives.workers) : 0;
}

/** The work of all workers. */
export function busyMicros(lives: Lives): number {
  let busy = 0;
  for (let k = 0; k < lives.count; k++) busy += (lives.end[k] as number) - (lives.start[k] as number);
  return busy;
}
