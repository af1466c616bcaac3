/** Which scopes to open at first: enough to see something, not more than fits. */
import type { Model } from "../trace/model";
import { runsIn } from "./fold";
import { scopeFacts } from "./visible";

/** Up to here every node is shown. */
export const SHOW_ALL = 40;
/** The first picture of a larger graph has about this many boxes. */
const ENOUGH = 15;
const MOST = 60;
/** More boxes than this are drawn only after asking. */
export const ASK_FIRST = 600;

export function openAtFirst(model: Model): Set<number> {
  const facts = scopeFacts(model);
  const open = new Set<number>([0]);
  if (model.nodes <= SHOW_ALL) {
    for (const s of facts.order) open.add(s);
    return open;
  }
  let boxes = contents(model, 0);
  const closed = new Map(shownIn(model, 0));
  for (;;) {
    // A scope that holds a single thing says nothing closed; else the largest that still fits, until there is enough.
    let next = -1;
    for (const [s, inside] of closed) {
      if (boxes - 1 + inside > MOST) continue;
      const lone = inside === 1;
      if (boxes >= ENOUGH && !lone) continue;
      if (next < 0 || facts.nodes[s]! > facts.nodes[next]! || (facts.nodes[s] === facts.nodes[next] && s < next)) next = s;
    }
    if (next < 0) return open;
    open.add(next);
    boxes += closed.get(next)! - 1;
    closed.delete(next);
    for (const [s, inside] of shownIn(model, next)) closed.set(s, inside);
  }
}

/** The scopes that stand for the runs in a scope, each with the boxes that it has inside. */
function shownIn(model: Model, scope: number): [number, number][] {
  return runsIn(model, scope).map((run) => [run[0]!, contents(model, run[0]!)]);
}

/** Boxes that a scope has inside when it is opened. */
export function contents(model: Model, scope: number): number {
  return model.childNodes[scope]!.length + runsIn(model, scope).length;
}

/** The open scopes without those inside a closed one: what is seen of them. */
export function reachable(model: Model, open: ReadonlySet<number>): Set<number> {
  const { parent } = model.trace.scopes;
  const seen = new Set<number>();
  for (const s of scopeFacts(model).order) if (s === 0 || (open.has(s) && seen.has(parent[s]!))) seen.add(s);
  return seen;
}

/** Opens everything around a node, so that it is seen. */
export function openedTo(model: Model, open: ReadonlySet<number>, node: number): Set<number> {
  const { parent } = model.trace.scopes;
  const next = new Set(open);
  for (let s = model.trace.nodes.scope[node]!; s >= 0; s = parent[s]!) next.add(s);
  return next;
}
