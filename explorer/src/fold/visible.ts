/** The visible graph: what of a recorded graph is drawn as a box, as a frame, or as a line. */
import { kindOf, shapeOf, type Model } from "../trace/model";
import { copiedFor, seenIn } from "./copies";

export interface Item {
  readonly kind: "node" | "scope" | "run" | "port";
  /** Row of `nodes` of a node, else -1; of a port the first of those whose values come in, or go out, there. */
  readonly node: number;
  /** Row of `scopes`: of a scope itself, of a run's first member, of the scope that a node is in, of the part behind a port (-1: none). */
  readonly scope: number;
  /** The item around it, or -1. */
  readonly parent: number;
  /** An open scope: its contents are items of their own. */
  readonly open: boolean;
  /** Rows of the scopes that the item stands for: several in a run, or where one is drawn for all. */
  readonly members: readonly number[];
  /** Nodes in it, of one member. */
  readonly nodes: number;
  /** Parameters in it, of one member. */
  readonly params: number;
  /** Of a port: what stands behind it, rows of nodes outside of what is shown; and whether values come in there. */
  readonly beyond?: readonly number[];
  readonly entering?: boolean;
}

export interface VisibleEdge {
  readonly from: number;
  readonly to: number;
  /** Rows of `edges` that it stands for, ascending. */
  readonly rows: Int32Array;
  /** Rows of the nodes whose values go along it, in the order in which they are used; of one member where one is drawn for all. */
  readonly values: Int32Array;
  /** For each of the values the first of `rows` that brings it. */
  readonly firstRows: Int32Array;
  /** Elements of these values in all. */
  readonly size: number;
}

export interface VisibleGraph {
  /** Parents before their contents; contents in the order of the recording. */
  readonly items: readonly Item[];
  readonly edges: readonly VisibleEdge[];
  /** The item in which a node is seen, or -1 for one that is left out; of one outside of what is shown the port by which it comes in. */
  readonly itemOf: Int32Array;
  /** The node that is drawn for a node: itself, but where one member of a run is drawn for all. */
  readonly seenAs: Int32Array;
  /** Boxes that are drawn: nodes, closed scopes, runs. */
  readonly boxes: number;
}

/** What folding needs to know of each scope, made once per model. */
export interface ScopeFacts {
  /** Nodes in the scope and all below. */
  readonly nodes: Int32Array;
  readonly params: Int32Array;
  /** Its first node, for the order of siblings. */
  readonly first: Int32Array;
  /** Scopes with parents before children. */
  readonly order: Int32Array;
}

const known = new WeakMap<Model, ScopeFacts>();

export function scopeFacts(model: Model): ScopeFacts {
  const found = known.get(model);
  if (found) return found;
  const { parent } = model.trace.scopes;
  const count = parent.length;
  const order = new Int32Array(count);
  let filled = 0;
  for (let s = 0; s < count; s++) if (parent[s]! < 0) order[filled++] = s;
  for (let i = 0; i < filled; i++) for (const child of model.childScopes[order[i]!]!) order[filled++] = child;
  const nodes = new Int32Array(count);
  const params = new Int32Array(count);
  const first = new Int32Array(count).fill(0x7fffffff);
  for (let i = filled - 1; i >= 0; i--) {
    const s = order[i]!;
    const own = model.childNodes[s]!;
    nodes[s]! += own.length;
    for (const n of own) if (kindOf(model, n) === "param") params[s]!++;
    if (own.length > 0) first[s] = Math.min(first[s]!, own[0]!);
    const up = parent[s]!;
    if (up < 0) continue;
    nodes[up]! += nodes[s]!;
    params[up]! += params[s]!;
    first[up] = Math.min(first[up]!, first[s]!);
  }
  const facts = { nodes, params, first, order };
  known.set(model, facts);
  return facts;
}

/**
 * Everything open: a frame for every scope, a box for every node but the copies that nobody wrote. Small graphs are shown
 * so; in larger ones scopes are closed, and folded (`fold.ts`).
 */
export function wholeGraph(model: Model): VisibleGraph {
  const facts = scopeFacts(model);
  const copied = copiedFor(model);
  const items: Item[] = [];
  const itemOf = new Int32Array(model.nodes).fill(-1);
  const queue = [{ scope: 0, parent: -1 }];
  for (const { scope, parent } of queue) {
    const nodes = model.childNodes[scope]!.filter((n) => copied[n]! < 0).map((node) => ({ node, at: scope, first: node }));
    const scopes = model.childScopes[scope]!.filter((s) => facts.nodes[s]! > 0).map((at) => ({ node: -1, at, first: facts.first[at]! }));
    for (const { node, at } of [...nodes, ...scopes].sort((a, b) => a.first - b.first)) {
      const index = items.length;
      if (node >= 0) {
        itemOf[node] = index;
        items.push({ kind: "node", node, scope: at, parent, open: false, members: [], nodes: 1, params: 0 });
      } else {
        queue.push({ scope: at, parent: index });
        items.push({ kind: "scope", node, scope: at, parent, open: true, members: [at], nodes: facts.nodes[at]!, params: facts.params[at]! });
      }
    }
  }
  const seenAs = Int32Array.from(itemOf, (_, n) => n);
  for (const n of seenAs) itemOf[n] = itemOf[seenIn(model, n)]!;
  const edges = edgesBetween(model, items, itemOf, seenAs, (_, to) => itemOf[to]!);
  return { items, edges, itemOf, seenAs, boxes: items.filter((item) => !item.open).length };
}

/** The lines between items, each for all edges that run along it; `enters` says in which item an edge between two nodes ends, -1 for none. */
export function edgesBetween(
  model: Model,
  items: readonly Item[],
  itemOf: Int32Array,
  seenAs: Int32Array,
  enters: (from: number, to: number) => number,
): VisibleEdge[] {
  const { src, dst, edges } = model;
  const at = new Map<number, number[]>();
  for (let e = 0; e < edges; e++) {
    const from = itemOf[src[e]!]!;
    const to = enters(src[e]!, dst[e]!);
    if (from === to || from < 0 || to < 0) continue;
    const key = to * items.length + from;
    const rows = at.get(key);
    if (rows) rows.push(e);
    else at.set(key, [e]);
  }
  const out: VisibleEdge[] = [];
  for (const [key, rows] of at) {
    const first = new Map<number, number>();
    for (const e of rows) {
      const value = seenAs[src[e]!]!;
      if (!first.has(value)) first.set(value, e);
    }
    const values = Int32Array.from(first.keys());
    let size = 0;
    for (const n of values) size += shapeOf(model, n).reduce((product, extent) => product * extent, 1);
    out.push({ from: key % items.length, to: Math.floor(key / items.length), rows: Int32Array.from(rows), values, firstRows: Int32Array.from(first.values()), size });
  }
  // By consumer, and the operands of one in their order: rows of edges are sorted so.
  return out.sort((a, b) => a.to - b.to || a.rows[0]! - b.rows[0]!);
}
