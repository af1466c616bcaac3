/** What the loupe looks into: a scope around what is selected, and what is open in it. */
import type { Model } from "../../trace/model";
import type { Selection } from "../../state";
import { boxesIn } from "./looks";
import { lineage, within } from "./totals";
import { columnOfScope, throughChain, type Strip } from "./strip";

/** The scope that holds a selection: a scope itself, the one a node or an edge's consumer is in; -1 for none. */
export function scopeOf(model: Model, selection: Selection): number {
  if (selection === null) return -1;
  if (selection.kind === "scope") return selection.row;
  const node = selection.kind === "edge" ? (model.dst[selection.row] as number) : selection.row;
  return model.trace.nodes.scope[node] as number;
}

/** Where the loupe looks for a selection: on, while that is inside; else the layer of the strip that it is in. */
export function focusFor(model: Model, strip: Strip, before: number, selection: Selection): number {
  const scope = scopeOf(model, selection);
  if (scope < 0) return before >= 0 ? before : firstFocus(model, strip);
  if (before > 0 && scope !== before && within(model, scope, before)) return before;
  const column = strip.columns[columnOfScope(model, strip, scope)];
  const layer = column?.scopes.find((s) => within(model, scope, s));
  if (selection?.kind === "scope" && layer !== undefined && throughChain(model, layer) !== throughChain(model, scope)) return throughChain(model, scope);
  const found = layer ?? (scope > 0 ? scope : -1);
  if (found >= 0) return throughChain(model, found);
  return before >= 0 ? before : firstFocus(model, strip);
}

/** A part with fewer boxes says too little alone. */
const ALONE = 5;

/**
 * The outermost part of a layer, around a node, that fits with all open that the node is in; where none does, the
 * innermost that is more than a few boxes.
 */
export function fittingPart(model: Model, layer: number, node: number, fits: (scope: number, open: ReadonlySet<number>) => boolean): number {
  const around = lineage(model, model.trace.nodes.scope[node] as number);
  const open = new Set(around);
  const parts = around.slice(0, around.indexOf(layer) + 1).reverse();
  return parts.find((scope) => fits(scope, open)) ?? parts.filter((scope) => boxesIn(model, scope, open) >= ALONE).pop() ?? layer;
}

/** The layer that most others are like, the largest such; the whole run where there are no layers. */
function firstFocus(model: Model, strip: Strip): number {
  const { hash } = model.trace.scopes;
  let best = 0;
  let most = 0;
  for (const column of strip.columns) {
    const scope = column.scopes[0];
    if (scope === undefined) continue;
    const like = strip.columns.filter((c) => c.scopes[0] !== undefined && hash[c.scopes[0]] === hash[scope]).length;
    if (like * column.ops > most) {
      most = like * column.ops;
      best = scope;
    }
  }
  return throughChain(model, best);
}

/** The scopes that are open, with what is open in one layer open in another of the same structure too. */
export function openAlike(model: Model, open: ReadonlySet<number>, from: number, to: number): Set<number> {
  const next = new Set(open);
  const { hash } = model.trace.scopes;
  if (from === to || from < 0 || hash[from] !== hash[to]) return next;
  const pairs: [number, number][] = [[from, to]];
  for (const [a, b] of pairs) {
    if (open.has(a)) next.add(b);
    const [inA, inB] = [model.childScopes[a] as number[], model.childScopes[b] as number[]];
    for (let i = 0; i < Math.min(inA.length, inB.length); i++) pairs.push([inA[i] as number, inB[i] as number]);
  }
  return next;
}
