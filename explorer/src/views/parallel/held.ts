/** Why a piece of work began when it did, and what held up the end: the chain of reasons back from the last piece. */
import type { Model } from "../../trace/model";
import type { Lives } from "./lives";
import { waitsFor } from "./passes";

/** "operand": it began when what it waits for was there; "worker": its worker was busy; "turn": compiled steps come in order. */
export type Cause = "begin" | "operand" | "worker" | "turn";

export interface Reason {
  row: number;
  cause: Cause;
  /** The row that it began after; -1 for none. */
  after: number;
  /** Microseconds between that row's end and its own beginning. */
  gap: number;
}

export interface Held {
  /** First to last. */
  chain: readonly Reason[];
  /** Microseconds of work on the chain, and in which nothing on it was worked on. */
  work: number;
  idle: number;
  /** How often a piece on the chain had to wait for its worker. */
  queued: number;
}

/** Times that were rounded may be apart by this much of the whole. */
const ROUNDED = 1e-6;

export class Reasons {
  private readonly valueRows: Rows;
  private readonly gradientRows: Rows;
  /** The row that a worker ran before each, -1 for none. */
  private readonly ahead: Int32Array;
  private readonly least: number;
  private byEnd: Int32Array | null = null;

  constructor(
    private readonly model: Model,
    private readonly lives: Lives,
  ) {
    this.valueRows = rowsByNode(model.nodes, lives.count, (row) => lives.works(row).values);
    this.gradientRows = rowsByNode(model.nodes, lives.count, (row) => lives.works(row).gradients);
    this.ahead = rowsAhead(lives);
    this.least = ROUNDED * lives.micros;
  }

  /** The rows that a row has to wait for; what nobody works on passes on what it waits for itself. */
  before(row: number): number[] {
    const works = this.lives.works(row);
    const found = new Set<number>();
    const seen = new Set<number>();
    const stack = [...works.values.map((node) => ({ node, back: false })), ...works.gradients.map((node) => ({ node, back: true }))];
    while (stack.length > 0) {
      const { node, back } = stack.pop() as { node: number; back: boolean };
      const parents = waitsFor(this.model, node, back);
      for (const n of parents.nodes) {
        const key = 2 * n + (parents.back ? 1 : 0);
        if (seen.has(key)) continue;
        seen.add(key);
        const { start, row: all } = parents.back ? this.gradientRows : this.valueRows;
        const rows = all.subarray(start[n], start[n + 1]);
        if (rows.length === 0) stack.push({ node: n, back: parents.back });
        else for (const r of rows) if (r !== row) found.add(r);
      }
    }
    return [...found];
  }

  /** Why a row began when it did. */
  of(row: number): Reason {
    const { ready, start, end } = this.lives;
    const begun = start[row] as number;
    const busy = this.ahead[row] as number;
    const waited = begun - (ready[row] as number) > this.least;
    if (waited && busy >= 0 && (end[busy] as number) > (ready[row] as number) + this.least) {
      return { row, cause: "worker", after: busy, gap: Math.max(0, begun - (end[busy] as number)) };
    }
    const earlier = this.before(row).filter((r) => (end[r] as number) <= begun + this.least);
    const last = earlier.reduce((a, b) => (a >= 0 && (end[a] as number) >= (end[b] as number) ? a : b), -1);
    if (last >= 0 && (end[last] as number) >= (ready[row] as number) - this.least) return { row, cause: "operand", after: last, gap: Math.max(0, begun - (end[last] as number)) };
    const turn = (ready[row] as number) > this.least ? this.lastEnded(ready[row] as number, row) : -1;
    if (turn >= 0) return { row, cause: "turn", after: turn, gap: Math.max(0, begun - (end[turn] as number)) };
    if (last >= 0) return { row, cause: "operand", after: last, gap: Math.max(0, begun - (end[last] as number)) };
    return { row, cause: "begin", after: -1, gap: begun };
  }

  held(): Held {
    const { start, end, count } = this.lives;
    const chain: Reason[] = [];
    const seen = new Set<number>();
    let row = -1;
    for (let k = 0; k < count; k++) if (row < 0 || (end[k] as number) > (end[row] as number)) row = k;
    while (row >= 0 && !seen.has(row)) {
      seen.add(row);
      const reason = this.of(row);
      chain.push(reason);
      row = reason.after;
    }
    chain.reverse();
    return {
      chain,
      work: chain.reduce((sum, r) => sum + (end[r.row] as number) - (start[r.row] as number), 0),
      idle: chain.reduce((sum, r) => sum + r.gap, 0),
      queued: chain.filter((r) => r.cause === "worker").length,
    };
  }

  /** The row, not this one, that ended last up to a time. */
  private lastEnded(time: number, row: number): number {
    const { end } = this.lives;
    this.byEnd ??= Int32Array.from(end.keys()).sort((a, b) => (end[a] as number) - (end[b] as number) || a - b);
    let [low, high] = [0, this.byEnd.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((end[this.byEnd[middle] as number] as number) <= time + this.least) low = middle + 1;
      else high = middle;
    }
    for (let i = low - 1; i >= 0; i--) if (this.byEnd[i] !== row) return this.byEnd[i] as number;
    return -1;
  }
}

/** Rows of each node: those of node n stand at `start[n]` to `start[n + 1]` of `row`. */
interface Rows {
  start: Int32Array;
  row: Int32Array;
}

function rowsByNode(nodes: number, count: number, of: (row: number) => readonly number[]): Rows {
  const start = new Int32Array(nodes + 1);
  for (let row = 0; row < count; row++) for (const n of of(row)) start[n + 1]!++;
  for (let n = 0; n < nodes; n++) start[n + 1]! += start[n]!;
  const fill = start.slice();
  const rows = new Int32Array(start[nodes]!);
  for (let row = 0; row < count; row++) for (const n of of(row)) rows[fill[n]!++] = row;
  return { start, row: rows };
}

function rowsAhead({ count, worker, workers, start }: Lives): Int32Array {
  const order = Int32Array.from({ length: count }, (_, k) => k).sort((a, b) => (start[a] as number) - (start[b] as number) || a - b);
  const last = new Int32Array(workers).fill(-1);
  const ahead = new Int32Array(count).fill(-1);
  for (const k of order) {
    ahead[k] = last[worker[k] as number] as number;
    last[worker[k] as number] = k;
  }
  return ahead;
}
