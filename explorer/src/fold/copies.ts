/** Copies that nobody wrote: a value made as large as the other operand of an operation. They happen on the way there. */
import { edgesAt, type Model } from "../trace/model";

const known = new WeakMap<Model, Int32Array>();

/** For every node the operation that it is copied for, -1 for all that are no such copies. */
export function copiedFor(model: Model): Int32Array {
  const found = known.get(model);
  if (found) return found;
  const { nodes, ops } = model.trace;
  const broadcasts = new Set(ops.name.flatMap((name, i) => (name === "broadcast" ? [i] : [])));
  const out = new Int32Array(model.nodes).fill(-1);
  if (broadcasts.size > 0) {
    for (let n = 0; n < model.nodes; n++) if (broadcasts.has(nodes.op[n] as number)) out[n] = userOf(model, n);
  }
  known.set(model, out);
  return out;
}

function userOf(model: Model, node: number): number {
  const { nodes } = model.trace;
  const uses = edgesAt(model.consumers, node);
  if (uses.length !== 1) return -1;
  const user = model.dst[uses[0] as number] as number;
  // What is written has an expression of its own.
  return (nodes.op[user] as number) >= 0 && nodes.span[user] === nodes.span[node] ? user : -1;
}

/** The copy that happens along an edge, by the node that makes it; -1 where the value goes as it is. */
export function copyAlong(model: Model, edge: number): number {
  const to = model.dst[edge] as number;
  return (copiedFor(model)[to] as number) < 0 ? -1 : to;
}

/** The node in which a copy is seen: the operation that it is made for; any other is seen as itself. */
export function seenIn(model: Model, node: number): number {
  const copied = copiedFor(model);
  let at = node;
  while ((copied[at] as number) >= 0) at = copied[at] as number;
  return at;
}

/** The node whose value a copy is of; any other is itself. */
export function copiedFrom(model: Model, node: number): number {
  const copied = copiedFor(model);
  let at = node;
  while ((copied[at] as number) >= 0) at = model.src[model.operands.edge[model.operands.start[at] as number] as number] as number;
  return at;
}

const records = new WeakMap<Model, Int32Array>();

/** Up to here leaves are listed first: a reader sees all at once. */
const FEW = 12;

/**
 * The nodes that are no such copies: what a reader of the program would list, in the order of the tape. A leaf stands before
 * what first takes it.
 */
export function recordsOf(model: Model): Int32Array {
  let found = records.get(model);
  if (found === undefined) {
    const copied = copiedFor(model);
    const isLate = (n: number) => model.nodes > FEW && edgesAt(model.operands, n).length === 0;
    const key = Float64Array.from({ length: model.nodes }, (_, n) => (isLate(n) ? edgesAt(model.consumers, n).reduce((first, e) => Math.min(first, model.dst[e]!), model.nodes) - 0.5 : n));
    found = Int32Array.from(key.keys()).filter((n) => (copied[n] as number) < 0).sort((a, b) => key[a]! - key[b]! || a - b);
    records.set(model, found);
  }
  return found;
}

/** Operands of a node that are copied to fit, as they are written, with the copies. */
export function copiesInto(model: Model, node: number): { from: number; copy: number }[] {
  return Array.from(edgesAt(model.operands, node), (edge) => model.src[edge] as number)
    .filter((src) => (copiedFor(model)[src] as number) >= 0)
    .map((copy) => ({ from: copiedFrom(model, copy), copy }));
}
