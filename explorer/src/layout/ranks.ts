import { groupBy, type Csr } from "./csr";
import type { LayoutNode } from "./types";

/** Edges as two columns, with the rows grouped by either end. */
export interface Wires {
  readonly count: number;
  readonly from: Int32Array;
  readonly to: Int32Array;
  readonly out: Csr;
  readonly into: Csr;
}

export function wires(count: number, from: Int32Array, to: Int32Array): Wires {
  return { count, from, to, out: groupBy(count, from), into: groupBy(count, to) };
}

/** Nodes in topological order (Kahn); shorter than the graph if there are cycles. */
function topological(graph: Wires): Int32Array {
  const { count, out, into, to } = graph;
  const waiting = new Int32Array(count);
  const order = new Int32Array(count);
  let filled = 0;
  for (let v = 0; v < count; v++) {
    waiting[v] = into.start[v + 1]! - into.start[v]!;
    if (waiting[v] === 0) order[filled++] = v;
  }
  for (let i = 0; i < filled; i++) {
    const v = order[i]!;
    for (let k = out.start[v]!; k < out.start[v + 1]!; k++) {
      const w = to[out.item[k]!]!;
      if (--waiting[w]! === 0) order[filled++] = w;
    }
  }
  return order.subarray(0, filled);
}

/**
 * Marks the edges to turn around so that no cycles are left.
 *
 * Recorded graphs have no cycles, but folded ones may: a module that is called, left and called again.
 * Nodes are numbered in the order of the recording, so among the nodes on cycles exactly the edges
 * that go back in this order are turned.
 */
export function backEdges(graph: Wires): Uint8Array {
  const back = new Uint8Array(graph.from.length);
  const order = topological(graph);
  if (order.length === graph.count) return back;
  const free = new Uint8Array(graph.count);
  for (const v of order) free[v] = 1;
  for (const v of topological({ ...graph, from: graph.to, to: graph.from, out: graph.into, into: graph.out })) free[v] = 1;
  for (let e = 0; e < back.length; e++) {
    const from = graph.from[e]!;
    const to = graph.to[e]!;
    if (!free[from] && !free[to] && from > to) back[e] = 1;
  }
  return back;
}

/** Longest chain of edges that ends in each node, and that starts from it. */
export interface Depths {
  readonly before: Int32Array;
  readonly after: Int32Array;
}

export function depths(graph: Wires, order: Int32Array): Depths {
  const before = new Int32Array(graph.count);
  const after = new Int32Array(graph.count);
  for (const v of order) {
    for (let k = graph.out.start[v]!; k < graph.out.start[v + 1]!; k++) {
      const w = graph.to[graph.out.item[k]!]!;
      if (before[w]! <= before[v]!) before[w] = before[v]! + 1;
    }
  }
  for (let i = order.length - 1; i >= 0; i--) {
    const v = order[i]!;
    for (let k = graph.into.start[v]!; k < graph.into.start[v + 1]!; k++) {
      const u = graph.from[graph.into.item[k]!]!;
      if (after[u]! <= after[v]!) after[u] = after[v]! + 1;
    }
  }
  return { before, after };
}

/**
 * Columns: longest path from the sources, then everything that gains by it moves right.
 *
 * Leaves, and small trees that hang on leaves only, stand just before their first use. Other nodes move
 * right if more edges leave them than enter, which shortens the edges in all. The graph must be acyclic.
 */
export function assignRanks(graph: Wires, nodes: readonly LayoutNode[]): { rank: Int32Array; ranks: number; depth: Depths } {
  const { count, out, into, from, to } = graph;
  const order = topological(graph);
  const depth = depths(graph, order);
  const first = nodes.some((node) => node.pin === "first") ? 1 : 0;
  const rank = new Int32Array(count);
  for (const v of order) {
    let least = nodes[v]!.pin === "first" ? 0 : first;
    for (let k = into.start[v]!; k < into.start[v + 1]!; k++) least = Math.max(least, rank[from[into.item[k]!]!]! + 1);
    rank[v] = least;
  }
  // A node hangs on leaves only if all that comes before it is used nowhere else.
  const loose = new Uint8Array(count);
  for (const v of order) {
    if (nodes[v]!.pin) continue;
    loose[v] = 1;
    for (let k = into.start[v]!; k < into.start[v + 1]!; k++) {
      const u = from[into.item[k]!]!;
      if (!loose[u] || out.start[u + 1]! - out.start[u]! > 1) loose[v] = 0;
    }
  }
  for (let i = order.length - 1; i >= 0; i--) {
    const v = order[i]!;
    const leaving = out.start[v + 1]! - out.start[v]!;
    const entering = into.start[v + 1]! - into.start[v]!;
    if (nodes[v]!.pin || leaving === 0 || (!loose[v] && leaving <= entering)) continue;
    let next = Infinity;
    for (let k = out.start[v]!; k < out.start[v + 1]!; k++) next = Math.min(next, rank[to[out.item[k]!]!]!);
    rank[v] = Math.max(rank[v]!, next - 1);
  }
  giveLeavesRoom(graph, rank, loose);
  let last = 0;
  for (let v = 0; v < count; v++) if (nodes[v]!.pin !== "last") last = Math.max(last, rank[v]! + 1);
  let ranks = last;
  for (let v = 0; v < count; v++) {
    if (nodes[v]!.pin === "last") {
      rank[v] = last;
      ranks = last + 1;
    }
  }
  return { rank, ranks, depth };
}

/** From this many lines of leaves that a fan would cross, the leaves get a rank of their own. */
const CROSSED_LEAVES = 3;

/**
 * A node that fans out to many operations crosses the lines of the leaves that these have in its own rank
 * (one value times many weights). Where that is much, the leaves move to a rank in between, which the fan
 * passes without a crossing.
 */
function giveLeavesRoom(graph: Wires, rank: Int32Array, loose: Uint8Array): void {
  const { count, out, into, from, to } = graph;
  const leaves = new Int32Array(count);
  for (let v = 0; v < count; v++) {
    for (let k = into.start[v]!; k < into.start[v + 1]!; k++) {
      const u = from[into.item[k]!]!;
      if (loose[u] && rank[u] === rank[v]! - 1) leaves[v]!++;
    }
  }
  const crossed: number[] = [];
  for (let u = 0; u < count; u++) {
    if (loose[u] && out.start[u + 1]! - out.start[u]! < 2) continue;
    let fan = 0;
    let hit = 0;
    for (let k = out.start[u]!; k < out.start[u + 1]!; k++) {
      const v = to[out.item[k]!]!;
      if (rank[v] !== rank[u]! + 1) continue;
      fan++;
      if (leaves[v]! > 0) hit += leaves[v]!;
    }
    if (fan > 2) crossed[rank[u]!] = (crossed[rank[u]!] ?? 0) + ((fan - 1) * hit) / 4;
  }
  const shift: number[] = [];
  let sum = 0;
  for (let r = 0; r < count; r++) {
    shift[r] = sum;
    if ((crossed[r] ?? 0) >= CROSSED_LEAVES) sum++;
  }
  if (sum === 0) return;
  for (let v = 0; v < count; v++) {
    const r = rank[v]!;
    const single = loose[v] && out.start[v + 1]! - out.start[v]! === 1 && rank[to[out.item[out.start[v]!]!]!] === r + 1;
    rank[v] = r + (single ? shift[r + 1]! : shift[r]!);
  }
}
