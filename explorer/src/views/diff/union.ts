/** Two graphs as one: what they share stands once, so that both can be drawn with the same layout. */
import type { Model } from "../../trace/model";
import type { TraceDiff } from "../../trace/types";

export type Change = "same" | "added" | "removed" | "changed";

export interface UnionNode {
  /** Rows in the first and in the second graph; -1 where it is not there. */
  a: number;
  b: number;
  change: Change;
}

export interface UnionEdge {
  from: number;
  to: number;
  inA: boolean;
  inB: boolean;
}

export interface Union {
  nodes: readonly UnionNode[];
  edges: readonly UnionEdge[];
  /** Nodes that are left out because nothing near them changed. */
  hidden: number;
}

/** Up to here everything is shown; beyond, what is so near to a change. */
const SHOW_ALL = 240;
const NEAR = 2;

export function unionOf(a: Model, b: Model, edits: TraceDiff["edits"]): Union {
  const nodes = matched(a, b, edits);
  const ofA = new Int32Array(a.nodes).fill(-1);
  const ofB = new Int32Array(b.nodes).fill(-1);
  nodes.forEach((node, i) => {
    if (node.a >= 0) ofA[node.a] = i;
    if (node.b >= 0) ofB[node.b] = i;
  });
  const edges = new Map<string, UnionEdge>();
  const add = (model: Model, of: Int32Array, side: "inA" | "inB") => {
    for (let e = 0; e < model.edges; e++) {
      const [from, to] = [of[model.src[e] as number] as number, of[model.dst[e] as number] as number];
      const key = `${from} ${to}`;
      const known = edges.get(key) ?? { from, to, inA: false, inB: false };
      known[side] = true;
      edges.set(key, known);
    }
  };
  add(a, ofA, "inA");
  add(b, ofB, "inB");
  return nearChanges(nodes, [...edges.values()]);
}

/** Rows that edits name as they say; all others of the first graph with all others of the second, in order. */
function matched(a: Model, b: Model, edits: TraceDiff["edits"]): UnionNode[] {
  const named = { a: new Map<number, UnionNode>(), b: new Map<number, UnionNode>() };
  for (const { kind, a: inA, b: inB } of edits) {
    const node: UnionNode = { a: inA, b: inB, change: kind };
    if (inA >= 0) named.a.set(inA, node);
    if (inB >= 0) named.b.set(inB, node);
  }
  const out: UnionNode[] = [];
  let i = 0;
  let j = 0;
  for (;;) {
    for (let node = named.a.get(i); node !== undefined; node = named.a.get(++i)) out.push(node);
    // What only the second graph has stands where it was made there; what both have stands already.
    for (let node = named.b.get(j); node !== undefined; node = named.b.get(++j)) if (node.a < 0) out.push(node);
    if (i < a.nodes && j < b.nodes) out.push({ a: i++, b: j++, change: "same" });
    else if (i < a.nodes) out.push({ a: i++, b: -1, change: "removed" });
    else if (j < b.nodes) out.push({ a: -1, b: j++, change: "added" });
    else return out;
  }
}

function nearChanges(nodes: readonly UnionNode[], edges: readonly UnionEdge[]): Union {
  if (nodes.length <= SHOW_ALL) return { nodes, edges, hidden: 0 };
  const near = new Int32Array(nodes.length).fill(NEAR + 1);
  nodes.forEach((node, i) => {
    if (node.change !== "same") near[i] = 0;
  });
  for (let round = 0; round < NEAR; round++) {
    for (const { from, to } of edges) {
      const [x, y] = [near[from] as number, near[to] as number];
      if (x === round && y > round) near[to] = round + 1;
      if (y === round && x > round) near[from] = round + 1;
    }
  }
  const row = new Int32Array(nodes.length).fill(-1);
  const kept: UnionNode[] = [];
  nodes.forEach((node, i) => {
    if ((near[i] as number) <= NEAR) row[i] = kept.push(node) - 1;
  });
  const shown = edges.flatMap(({ from, to, inA, inB }) => {
    const [f, t] = [row[from] as number, row[to] as number];
    return f >= 0 && t >= 0 ? [{ from: f, to: t, inA, inB }] : [];
  });
  return { nodes: kept, edges: shown, hidden: nodes.length - kept.length };
}
