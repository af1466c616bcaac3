/**
 * The bus: a value that parts of a program only add to, as the residual stream of a transformer. It runs straight along
 * the top of its row, and what is computed from it hangs below.
 */
import type { LayoutEdge } from "./types";

/** Steps without a sum that a bus may pass between two of them: a rectifier, a normalisation. */
const BETWEEN = 3;

/**
 * Rows of the edges along the bus, from its beginning to its end; none where there is none. `isSum` says which nodes add.
 * An edge into a sum is part of one if the sum's other operand is computed from the same value.
 */
export function busOf(count: number, edges: readonly LayoutEdge[], isSum: (node: number) => boolean): number[] {
  const out: number[][] = Array.from({ length: count }, () => []);
  const into: number[][] = Array.from({ length: count }, () => []);
  edges.forEach(({ from, to }, e) => {
    if (from === to) return;
    out[from]!.push(e);
    into[to]!.push(e);
  });
  const order = topological(count, edges, out, into);
  if (order.length < count) return [];
  const depth = new Int32Array(count);
  for (const v of order) for (const e of out[v]!) depth[edges[e]!.to] = Math.max(depth[edges[e]!.to]!, depth[v]! + 1);
  // The sums that close a way around, by the node at which it began.
  const skips = new Map<number, number[]>();
  for (let v = 0; v < count; v++) {
    if (!isSum(v) || into[v]!.length < 2) continue;
    for (const e of into[v]!) {
      const u = edges[e]!.from;
      if (out[u]!.length < 2 || !leadsAround(u, v, e, edges, out, depth)) continue;
      skips.set(u, [...(skips.get(u) ?? []), e]);
    }
  }
  if (skips.size === 0) return [];
  // From the end: the most sums that a bus from here passes, and the edge that it goes on by.
  const most = new Int32Array(count);
  const next = new Int32Array(count).fill(-1);
  for (let i = order.length - 1; i >= 0; i--) {
    const v = order[i]!;
    for (const e of skips.get(v) ?? []) {
      const gain = 1 + most[edges[e]!.to]!;
      if (gain > most[v]!) [most[v], next[v]] = [gain, e];
    }
    if (next[v]! >= 0) continue;
    const only = out[v]!.length === 1 ? out[v]![0]! : -1;
    if (only >= 0) [most[v], next[v]] = [most[edges[only]!.to]!, only];
  }
  let start = -1;
  for (const v of order) if (skips.has(v) && (start < 0 || most[v]! > most[start]!)) start = v;
  const along: number[] = [];
  // Backwards as long as there is one way only.
  for (let v = start, steps = 0; steps < BETWEEN && into[v]!.length === 1; steps++) {
    const e = into[v]![0]!;
    if (out[edges[e]!.from]!.length !== 1) break;
    along.unshift(e);
    v = edges[e]!.from;
  }
  let plain = 0;
  const tail: number[] = [];
  for (let v = start; next[v]! >= 0; v = edges[next[v]!]!.to) {
    const e = next[v]!;
    const sums = (skips.get(v) ?? []).includes(e);
    plain = sums ? 0 : plain + 1;
    // What follows the last sum belongs to it as far as it leads straight out.
    if (plain > BETWEEN) {
      tail.length -= Math.min(tail.length, BETWEEN);
      break;
    }
    tail.push(e);
  }
  return [...along, ...tail];
}

/** Whether a way leads from u to v beside edge `direct`. */
function leadsAround(u: number, v: number, direct: number, edges: readonly LayoutEdge[], out: readonly number[][], depth: Int32Array): boolean {
  const seen = new Set<number>();
  const stack = out[u]!.filter((e) => e !== direct).map((e) => edges[e]!.to);
  while (stack.length > 0) {
    const w = stack.pop()!;
    if (w === v) return true;
    if (seen.has(w) || depth[w]! >= depth[v]!) continue;
    seen.add(w);
    for (const e of out[w]!) stack.push(edges[e]!.to);
  }
  return false;
}

function topological(count: number, edges: readonly LayoutEdge[], out: readonly number[][], into: readonly number[][]): number[] {
  const waiting = into.map((list) => list.length);
  const order: number[] = [];
  for (let v = 0; v < count; v++) if (waiting[v] === 0) order.push(v);
  for (let i = 0; i < order.length; i++) for (const e of out[order[i]!]!) if (--waiting[edges[e]!.to]! === 0) order.push(edges[e]!.to);
  return order;
}
