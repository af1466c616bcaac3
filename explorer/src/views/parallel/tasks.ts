/** The recorded run as tasks that wait for each other: its critical path, and what more or fewer workers would make of it. */
import { once } from "../../once";
import type { Model } from "../../trace/model";
import { PHASES } from "../../trace/types";

/** Tasks in the order of the clock, one for each event; `before` lists, compressed as in `Adjacency`, what each waits for. */
export interface Tasks {
  count: number;
  /** Microseconds each takes. */
  dur: Float64Array;
  start: Int32Array;
  before: Int32Array;
}

const known = new WeakMap<Model, Tasks>();

/**
 * A value waits for its operands; a gradient for the gradients of all consumers, for what is computed again for it, and for
 * the value that ends the forward pass; an update for all that goes to its parameter's gradient.
 */
export function tasksOf(model: Model): Tasks {
  const seen = known.get(model);
  if (seen !== undefined) return seen;
  const { events } = model.trace;
  const count = model.events;
  const start = new Int32Array(count + 1);
  const lists: Int32Array = new Int32Array(4 * model.edges + 2 * count);
  const again = new Int32Array(model.nodes).fill(-1);
  let fill = 0;
  const wait = (k: number, other: number) => {
    if (other >= 0 && other < k) lists[fill++] = other;
  };
  for (let k = 0; k < count; k++) {
    start[k] = fill;
    const node = events.node[k] as number;
    const phase = PHASES[events.phase[k] as number];
    if (node < 0) {
      wait(k, k - 1);
    } else if (phase === "backward" || phase === "optimizer") {
      const { start: at, edge } = model.consumers;
      const [from, to] = [at[node] as number, at[node + 1] as number];
      for (let i = from; i < to; i++) wait(k, model.backwardAt[model.dst[edge[i] as number] as number] as number);
      if (fill === start[k]) wait(k, model.forwardAt[node] as number);
      wait(k, again[node] as number);
    } else {
      if (phase === "recompute") again[node] = k;
      const { start: at, edge } = model.operands;
      for (let i = at[node] as number; i < (at[node + 1] as number); i++) {
        wait(k, model.forwardAt[model.src[edge[i] as number] as number] as number);
      }
    }
  }
  start[count] = fill;
  const made: Tasks = {
    count,
    dur: durations(model),
    start,
    before: lists.slice(0, fill),
  };
  known.set(model, made);
  return made;
}

/** What each event takes: measured apart, where that was done, as in the recorded run everything is done for the first time. */
function durations(model: Model): Float64Array {
  const { events, parallel } = model.trace;
  const dur = Float64Array.from(events.dur);
  if (parallel?.alone === undefined) return dur;
  const apart = new Float64Array(model.events).fill(Number.NaN);
  parallel.node.forEach((node, row) => {
    const k = (parallel.gradient?.[row] === 1 ? model.backwardAt : model.forwardAt)[node] ?? -1;
    if (k >= 0) apart[k] = (Number.isNaN(apart[k] as number) ? 0 : (apart[k] as number)) + (parallel.alone?.[row] ?? 0);
  });
  return dur.map((micros, k) => (Number.isNaN(apart[k] as number) ? micros : (apart[k] as number)));
}

export interface CriticalPath {
  micros: number;
  /** Tasks on it, first to last. */
  tasks: number[];
  onPath: Uint8Array;
  /** When each could begin at the earliest, and the level it is at (0 waits for nothing). */
  earliest: Float64Array;
  level: Int32Array;
}

export function criticalPath(tasks: Tasks): CriticalPath {
  const earliest = new Float64Array(tasks.count);
  const level = new Int32Array(tasks.count);
  const held = new Int32Array(tasks.count).fill(-1);
  let last = -1;
  let micros = 0;
  for (let k = 0; k < tasks.count; k++) {
    for (let i = tasks.start[k] as number; i < (tasks.start[k + 1] as number); i++) {
      const b = tasks.before[i] as number;
      const end = (earliest[b] as number) + (tasks.dur[b] as number);
      if (end >= (earliest[k] as number)) {
        held[k] = b;
        earliest[k] = end;
      }
      level[k] = Math.max(level[k] as number, (level[b] as number) + 1);
    }
    const end = (earliest[k] as number) + (tasks.dur[k] as number);
    if (last < 0 || end > micros) {
      micros = end;
      last = k;
    }
  }
  const path: number[] = [];
  const onPath = new Uint8Array(tasks.count);
  for (let k = last; k >= 0; k = held[k] as number) {
    path.push(k);
    onPath[k] = 1;
  }
  return { micros, tasks: path.reverse(), onPath, earliest, level };
}

export const workOf = once((tasks: Tasks): number => tasks.dur.reduce((sum, d) => sum + d, 0));
