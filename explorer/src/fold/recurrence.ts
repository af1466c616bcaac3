/**
 * Recurrences: parts in a row that do the same with the same weights, each with what the one before hands on. What is handed
 * on is their state.
 */
import { edgesAt, kindOf, opOf, type Model } from "../trace/model";
import { copiedFrom, seenIn } from "./copies";
import { nodesWithin } from "./fold";
import { scopeFacts } from "./visible";

/** A value that a part is given by the one before it, and the one that it gives to the next in its place. */
export interface State {
  /** A node outside of the part, or, where the part begins the recurrence, what it begins with. */
  readonly entering: number;
  readonly leaving: number;
}

const known = new WeakMap<Model, Map<number, readonly State[]>>();

/** The states of the recurrence that a scope is a turn of; none where it is no such turn. */
export function statesOf(model: Model, scope: number): readonly State[] {
  let found = known.get(model);
  if (found === undefined) known.set(model, (found = new Map<number, readonly State[]>()));
  let own = found.get(scope);
  if (own === undefined) found.set(scope, (own = findStates(model, scope)));
  return own;
}

/** Turns of the recurrence around a scope, itself included. */
export function turnsOf(model: Model, scope: number): number {
  const { hash, parent } = model.trace.scopes;
  return (model.childScopes[parent[scope] as number] ?? []).filter((s) => hash[s] === hash[scope]).length;
}

function findStates(model: Model, scope: number): State[] {
  const { parent, hash } = model.trace.scopes;
  const up = parent[scope] as number;
  if (up < 0) return [];
  const { first, nodes } = scopeFacts(model);
  const row = (model.childScopes[up] as number[]).filter((s) => (nodes[s] as number) > 0).sort((a, b) => (first[a] as number) - (first[b] as number));
  const at = row.indexOf(scope);
  for (const [earlier, later] of [[scope, row[at + 1]], [row[at - 1], scope]] as const) {
    if (earlier === undefined || later === undefined || hash[earlier] !== hash[later]) continue;
    const states = between(model, earlier, later, scope);
    if (states.length > 0) return states;
  }
  return [];
}

/** What two turns hand on, told for `of`, which is one of them. */
function between(model: Model, earlier: number, later: number, of: number): State[] {
  const [a, b] = [operations(model, earlier), operations(model, later)];
  if (a.length !== b.length || !sameWeights(model, a, b)) return [];
  const placeIn = (list: Int32Array) => new Map(Array.from(list, (n, k) => [n, k] as const));
  const [inA, inB] = [placeIn(a), placeIn(b)];
  const states = new Map<number, State>();
  b.forEach((user, k) => {
    edgesAt(model.operands, user).forEach((edge, i) => {
      const made = inA.get(copiedFrom(model, model.src[edge] as number));
      if (made === undefined || states.has(made)) return;
      // The same operand of the same operation in the earlier turn is what that one was given.
      const given = edgesAt(model.operands, a[k] as number)[i];
      if (given === undefined) return;
      const before = copiedFrom(model, model.src[given] as number);
      if (inA.has(before)) return;
      const from = of === earlier ? before : (a[made] as number);
      if (of === later && inB.has(from)) return;
      states.set(made, { entering: from, leaving: (of === earlier ? a : b)[made] as number });
    });
  });
  return [...states.values()];
}

function operations(model: Model, scope: number): Int32Array {
  return nodesWithin(model, scope).filter((n) => (model.trace.nodes.op[n] as number) >= 0 && seenIn(model, n) === n);
}

/** Whether two parts take the same parameters. Without any they are turns of a recurrence where they do something at all. */
function sameWeights(model: Model, a: Int32Array, b: Int32Array): boolean {
  const [own, other] = [weights(model, a), weights(model, b)];
  if (own.size !== other.size || [...own].some((n) => !other.has(n))) return false;
  return a.length > 0 && a.every((n, k) => opOf(model, n) === opOf(model, b[k] as number));
}

function weights(model: Model, nodes: Int32Array): Set<number> {
  const taken = new Set<number>();
  for (const n of nodes) for (const edge of edgesAt(model.operands, n)) if (kindOf(model, model.src[edge] as number) === "param") taken.add(model.src[edge] as number);
  return taken;
}
