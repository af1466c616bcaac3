/** The lanes of ranks: what each does in a step, and what of that it waits for. */
import type { Timeline } from "../../panels/survey/timeline";
import type { Ranks } from "../../trace/types";

export const COMPUTES = 0;
export const MOVES = 1;
export const WAITS = 2;
export const KINDS = 3;

/** What a lane's parts take together, in microseconds, and the bytes that its ranks send. */
export interface Total {
  readonly ranks: string;
  readonly memory: number;
  readonly computing: number;
  readonly moving: number;
  readonly waiting: number;
  readonly moved: number;
  readonly micros: number;
}

export function totals(ranks: Ranks): Total[] {
  const found = ranks.lanes.map(({ ranks, memory }) => ({ ranks, memory, computing: 0, moving: 0, waiting: 0, moved: 0, micros: 0 }));
  ranks.lane.forEach((lane, k) => {
    const total = found[lane];
    if (total === undefined) return;
    const took = (ranks.end[k] as number) - (ranks.start[k] as number);
    if (ranks.kind[k] === COMPUTES) total.computing += took;
    else if (ranks.kind[k] === MOVES) total.moving += took;
    else total.waiting += took;
    total.moved += ranks.moved[k] as number;
    total.micros = Math.max(total.micros, ranks.end[k] as number);
  });
  return found;
}

/** Two rows for each lane, what its ranks do and what moves meanwhile, on an axis from 0 to 1. */
export function timelineOf(ranks: Ranks): Timeline {
  const share = (t: number) => t / Math.max(1e-9, ranks.micros);
  return {
    from: Float64Array.from(ranks.start, share),
    to: Float64Array.from(ranks.end, share),
    mark: new Float64Array(0),
    threads: Array.from({ length: 2 * ranks.lanes.length }, (_, i) => i),
    lane: Int32Array.from(ranks.lane, (lane, k) => rowOf(lane, ranks.kind[k] as number)),
    micros: ranks.micros,
    breaks: [],
  };
}

export function rowOf(lane: number, kind: number): number {
  return 2 * lane + (kind === MOVES ? 1 : 0);
}

/** The part in a row at a time, or the nearest within reach; -1 for none. */
export function partAt(ranks: Ranks, row: number, time: number, reach: number): number {
  let best = -1;
  let nearest = reach;
  for (let k = 0; k < ranks.lane.length; k++) {
    if (rowOf(ranks.lane[k] as number, ranks.kind[k] as number) !== row) continue;
    const off = Math.max(0, (ranks.start[k] as number) - time, time - (ranks.end[k] as number));
    if (off < nearest || (off === 0 && nearest === 0)) {
      nearest = off;
      best = k;
    }
  }
  return best;
}

/** The parts that take longest, the longest first. */
export function longest(ranks: Ranks, count: number): number[] {
  const took = (k: number) => (ranks.end[k] as number) - (ranks.start[k] as number);
  return ranks.lane
    .map((_, k) => k)
    .sort((a, b) => took(b) - took(a) || a - b)
    .slice(0, count);
}

/** The part that stands next to one in its row, or the first one of all. */
export function beside(ranks: Ranks, at: number, by: 1 | -1): number {
  if (at < 0) return ranks.lane.length > 0 ? 0 : -1;
  const row = rowOf(ranks.lane[at] as number, ranks.kind[at] as number);
  for (let k = at + by; k >= 0 && k < ranks.lane.length; k += by) {
    if (rowOf(ranks.lane[k] as number, ranks.kind[k] as number) === row) return k;
  }
  return at;
}
