/**
 * What if there were n workers? List scheduling (Graham 1966): whenever a worker is free it takes, of the tasks whose
 * operands are there, the one with the longest way to the end. Durations are the recorded ones; nothing is charged
 * for handing over, so the outcome is a bound on what a real scheduler could do in that order, not a forecast.
 */
import type { Tasks } from "./tasks";

export interface Schedule {
  micros: number;
  start: Float64Array;
  worker: Int32Array;
}

export function simulate(tasks: Tasks, workers: number): Schedule {
  const known = planOf(tasks).made;
  let made = known.get(workers);
  if (made === undefined) known.set(workers, (made = schedule(tasks, workers)));
  return made;
}

function schedule(tasks: Tasks, workers: number): Schedule {
  const { count, dur } = tasks;
  const { out, first } = planOf(tasks);
  const waits = new Int32Array(count);
  for (let k = 0; k < count; k++) waits[k] = (tasks.start[k + 1] as number) - (tasks.start[k] as number);
  const start = new Float64Array(count);
  const worker = new Int32Array(count).fill(-1);
  // Ready tasks, the longest way to the end first; running ones, the first to end first.
  const ready = new Heap(first, count);
  const end = new Float64Array(count);
  const running = new Heap(end, workers);
  const free: number[] = Array.from({ length: workers }, (_, w) => workers - 1 - w);
  for (let k = 0; k < count; k++) if (waits[k] === 0) ready.push(k);
  let now = 0;
  for (;;) {
    while (free.length > 0 && ready.size > 0) {
      const k = ready.pop();
      start[k] = now;
      worker[k] = free.pop() as number;
      end[k] = now + (dur[k] as number);
      running.push(k);
    }
    if (running.size === 0) break;
    const done = running.pop();
    now = end[done] as number;
    free.push(worker[done] as number);
    for (let i = out.start[done] as number; i < (out.start[done + 1] as number); i++) {
      const next = out.after[i] as number;
      waits[next] = (waits[next] as number) - 1;
      if (waits[next] === 0) ready.push(next);
    }
  }
  return { micros: now, start, worker };
}

export interface Speedup {
  workers: number;
  micros: number;
  speedup: number;
  /** No schedule can be faster: neither than all work shared evenly, nor than the critical path (Brent 1974). */
  bound: number;
}

/** For each number of workers from `least` to `most`. */
export function speedups(tasks: Tasks, critical: number, least: number, most: number): Speedup[] {
  const work = tasks.dur.reduce((sum, d) => sum + d, 0);
  return Array.from({ length: most - least + 1 }, (_, i) => {
    const workers = least + i;
    // One worker does everything one after the other.
    const micros = workers === 1 ? work : simulate(tasks, workers).micros;
    return { workers, micros, speedup: micros > 0 ? work / micros : 1, bound: critical > 0 ? Math.min(workers, work / critical) : 1 };
  });
}

interface Followers {
  start: Int32Array;
  after: Int32Array;
}

function followers(tasks: Tasks): Followers {
  const start = new Int32Array(tasks.count + 1);
  for (const b of tasks.before) start[b + 1] = (start[b + 1] as number) + 1;
  for (let k = 0; k < tasks.count; k++) start[k + 1] = (start[k + 1] as number) + (start[k] as number);
  const fill = start.slice();
  const after = new Int32Array(tasks.before.length);
  for (let k = 0; k < tasks.count; k++) {
    for (let i = tasks.start[k] as number; i < (tasks.start[k + 1] as number); i++) {
      const b = tasks.before[i] as number;
      after[fill[b] as number] = k;
      fill[b] = (fill[b] as number) + 1;
    }
  }
  return { start, after };
}

function waysToEnd(tasks: Tasks, out: Followers): Float64Array {
  const rank = new Float64Array(tasks.count);
  for (let k = tasks.count - 1; k >= 0; k--) {
    let longest = 0;
    for (let i = out.start[k] as number; i < (out.start[k + 1] as number); i++) longest = Math.max(longest, rank[out.after[i] as number] as number);
    rank[k] = longest + (tasks.dur[k] as number);
  }
  return rank;
}

interface Plan {
  out: Followers;
  /** Minus the way to the end: what is least is taken first. */
  first: Float64Array;
  /** Schedules that were made, by the number of workers. */
  made: Map<number, Schedule>;
}

const plans = new WeakMap<Tasks, Plan>();

/** What is the same for every number of workers. */
function planOf(tasks: Tasks): Plan {
  let plan = plans.get(tasks);
  if (plan === undefined) {
    const out = followers(tasks);
    plan = { out, first: waysToEnd(tasks, out).map((way) => -way), made: new Map() };
    plans.set(tasks, plan);
  }
  return plan;
}

/** Rows by a column, the least first; of equals the lowest row. */
class Heap {
  private readonly rows: Int32Array;
  size = 0;
  constructor(
    private readonly by: Float64Array,
    room: number,
  ) {
    this.rows = new Int32Array(room);
  }

  private less(a: number, b: number): boolean {
    const x = this.by[a] as number;
    const y = this.by[b] as number;
    return x < y || (x === y && a < b);
  }

  push(row: number): void {
    const { rows } = this;
    let i = this.size++;
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (!this.less(row, rows[up] as number)) break;
      rows[i] = rows[up] as number;
      i = up;
    }
    rows[i] = row;
  }

  pop(): number {
    const { rows } = this;
    const top = rows[0] as number;
    const size = --this.size;
    const row = rows[size] as number;
    let i = 0;
    for (;;) {
      let down = 2 * i + 1;
      if (down >= size) break;
      if (down + 1 < size && this.less(rows[down + 1] as number, rows[down] as number)) down++;
      if (!this.less(rows[down] as number, row)) break;
      rows[i] = rows[down] as number;
      i = down;
    }
    rows[i] = row;
    return top;
  }
}
