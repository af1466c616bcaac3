/** How the loupe shows what is folded in it: NaN, what is chosen, what has not happened yet, kernels. */
import { copiedFor, copyAlong } from "../../fold/copies";
import type { Item, VisibleEdge, VisibleGraph } from "../../fold/visible";
import { scopeFacts } from "../../fold/visible";
import { runsIn } from "../../fold/fold";
import { statesOf, turnsOf } from "../../fold/recurrence";
import type { EdgeLook, Lane, NodeLook } from "../../draw/looks";
import type { Picture } from "../../draw/picture";
import { hullParts, type Hull, type Loop } from "../../draw/survey_scene";
import { around } from "../../draw/shapes";
import type { Rect } from "../../layout/types";
import type { KernelInfo } from "../../trace/types";
import { kindOf, nameOf, recordedGradient, recordedValue, type Model } from "../../trace/model";
import type { Selection } from "../../state";
import { shownMicros, shownNumber } from "../../format";
import { hasNaNGradient, hasNaNValue, totalsOf } from "./totals";

export interface Scenery {
  cursor: number;
  selection: Selection;
  hover: Selection;
  /** Nodes at which NaN is born, by what to say there. */
  born: ReadonlyMap<number, string>;
  /** Nodes that another view points at. */
  lit: ReadonlySet<number>;
  /** Scopes with such nodes in them. */
  litScopes?: ReadonlySet<number>;
}

export function nodeLooks(model: Model, picture: Picture, scenery: Scenery): NodeLook[] {
  return picture.graph.items.map((item, i) => nodeLook(model, item, picture.nodes[i] as NodeLook, scenery));
}

function nodeLook(model: Model, item: Item, base: NodeLook, scenery: Scenery): NodeLook {
  const { selection, hover } = scenery;
  const is = (what: Selection) =>
    what !== null && (item.node >= 0 ? what.kind === "node" && what.row === item.node : what.kind === "scope" && item.members.includes(what.row));
  const born = item.kind === "node" ? scenery.born.get(item.node) : undefined;
  const lost = item.node >= 0 ? born !== undefined || hasNaNValue(model, item.node) || isLostLeaf(model, item.node) : !item.open && isLost(model, item);
  const made = item.node < 0 || (model.trace.nodes.op[item.node] as number) < 0 ? -1 : (model.forwardAt[item.node] as number);
  const now = item.kind === "node" && scenery.cursor > 0 && model.trace.events.node[scenery.cursor - 1] === item.node;
  return {
    ...base,
    ...(item.open && item.node < 0 ? { subtitle: `${(totalsOf(model).ops[item.scope] as number).toLocaleString("en")} ops` } : {}),
    bad: lost,
    waiting: made >= scenery.cursor,
    // A port at which a value leaves is of an operation that stands inside: that is what is selected.
    selected: is(selection) && (item.kind !== "port" || item.entering === true),
    hovered: is(hover),
    glow: born !== undefined ? "bad" : now ? (made === scenery.cursor - 1 ? "op" : "grad") : isLit(item, scenery) ? "kernel" : undefined,
  };
}

/** Pointed at by another view; a closed box where something inside is. */
function isLit(item: Item, { lit, litScopes }: Scenery): boolean {
  return item.node >= 0 ? lit.has(item.node) : !item.open && litScopes !== undefined && item.members.some((s) => litScopes.has(s));
}

/** A parameter or input is marked where its own gradient is lost: nothing further back would show it. */
function isLostLeaf(model: Model, node: number): boolean {
  return (model.trace.nodes.op[node] as number) < 0 && hasNaNGradient(model, node);
}

/** A closed box is marked where NaN is in a value inside, or in every gradient that goes through it. */
function isLost(model: Model, item: Item): boolean {
  const t = totalsOf(model);
  return item.members.some((s) => (t.badValues[s] as number) > 0 || (t.badGradients[s] as number) > 0);
}

export function edgeLooks(model: Model, picture: Picture, scenery: Scenery): EdgeLook[] {
  const { selection } = scenery;
  return picture.graph.edges.map((edge, i) => {
    const base = picture.edges[i] as EdgeLook;
    const made = Math.min(...[...edge.values].map((n) => ((model.trace.nodes.op[n] as number) < 0 ? -1 : (model.forwardAt[n] as number))));
    const home = Math.max(...shownRows(model, picture.graph, edge).map((e) => model.backwardAt[model.dst[e] as number] as number));
    const single = edge.rows.length === 1 ? (edge.values[0] as number) : -1;
    return {
      ...base,
      value: base.value === null ? null : told(base.value, made >= scenery.cursor, single < 0 ? null : recordedValue(model, single)),
      // What is lost is shown from the beginning: it is what the reader came for.
      gradient: base.gradient === null ? null : told(base.gradient, home >= scenery.cursor && base.gradient.bad !== true, single < 0 ? null : recordedGradient(model, single)),
      selected: (selection?.kind === "edge" && edge.rows.includes(selection.row)) || (selection?.kind === "node" && edge.rows.some((e) => copyAlong(model, e) === selection.row)),
      sign: isCopied(model, edge) ? "⇉" : undefined,
    };
  });
}

/** Whether all that goes along an edge is copied to fit. */
function isCopied(model: Model, edge: VisibleEdge): boolean {
  return edge.rows.every((row) => copyAlong(model, row) >= 0);
}

/** The states of the recurrence that the scope shown is a turn of, from port to port. */
export function loopsIn(model: Model, focus: number, { graph }: Picture): Loop[] {
  const states = focus === 0 ? [] : statesOf(model, focus);
  const turns = states.length === 0 ? 0 : turnsOf(model, focus);
  // What the first turn begins with may stand inside.
  const begins = (node: number) => graph.items.findIndex((item) => item.node === node || (item.entering === true && item.beyond?.includes(node) === true));
  const leaves = (node: number) => graph.items.findIndex((item) => item.kind === "port" && item.entering === false && item.node === node);
  return states.flatMap(({ entering, leaving }) => {
    const [to, from] = [begins(entering), leaves(leaving)];
    return to < 0 || from < 0 ? [] : [{ from, to, label: `${stateName(model, leaving)}${turns > 1 ? `${turns} turns` : "each turn"}` }];
  });
}

/** "h, " where the program has a name for a state. */
function stateName(model: Model, node: number): string {
  const name = nameOf(model, node);
  return /^([vcpx]_?\d+)?$/.test(name) ? "state, " : `${name.slice(name.lastIndexOf(".") + 1).replace(/_\d+$/, "")}, `;
}

/** Where one member is drawn for all of a run, its own edges; all where none is its own. */
function shownRows(model: Model, graph: VisibleGraph, edge: VisibleEdge): number[] {
  const own = [...edge.rows].filter((e) => graph.seenAs[model.dst[e] as number] === model.dst[e] && graph.seenAs[model.src[e] as number] === model.src[e]);
  return own.length > 0 ? own : [...edge.rows];
}

function told(lane: Lane, dim: boolean, number: number | null): Lane {
  return { ...lane, dim, ...(number === null || dim ? {} : { chip: shownNumber(number, 3) }) };
}

/** Nodes that the compiler put into one kernel, where several of them are seen and nothing else stands between. */
export function hullsOf({ graph, layout, metrics }: Picture, kernels: readonly KernelInfo[]): Hull[] {
  const itemOfNode = new Map<number, number>();
  graph.items.forEach((item, i) => {
    if (item.kind === "node") itemOfNode.set(item.node, i);
  });
  const out: Hull[] = [];
  for (const kernel of kernels) {
    if (kernel.nodes.length < 2) continue;
    const items = kernel.nodes.map((n) => itemOfNode.get(n)).filter((i): i is number => i !== undefined);
    if (items.length < 2) continue;
    const frames = hullParts(items.map((i) => layout.boxes[i] as Rect), metrics).map((part) => around(part, metrics.padding * 0.7));
    // Where others stand in a frame too it would say that they are in the kernel.
    const foreign = (i: number) => !items.includes(i) && !items.some((own) => encloses(graph, i, own));
    if (graph.items.some((_, i) => foreign(i) && frames.some((frame) => overlaps(layout.boxes[i] as Rect, frame)))) continue;
    out.push({ items, label: `one kernel${kernel.micros === null ? "" : `, ${shownMicros(kernel.micros)}`}` });
  }
  return out;
}

function overlaps(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function encloses(graph: VisibleGraph, outer: number, inner: number): boolean {
  for (let i = inner; i >= 0; i = graph.items[i]?.parent ?? -1) if (i === outer) return true;
  return false;
}

/** Boxes that a scope has inside when it is open; constants are not drawn. */
function contents(model: Model, scope: number): number {
  let boxes = runsIn(model, scope).length;
  const copied = copiedFor(model);
  for (const n of model.childNodes[scope] as number[]) if (kindOf(model, n) !== "const" && (copied[n] as number) < 0) boxes++;
  return boxes;
}

/** The first look into a layer has about this many boxes. */
const ENOUGH = 14;
const MOST = 40;

/** The scopes to open so that a look into `focus` shows something: the largest that still fit, until there is enough. */
export function enoughOpen(model: Model, focus: number, open: ReadonlySet<number>): ReadonlySet<number> {
  const facts = scopeFacts(model);
  const shown = (scope: number) => runsIn(model, scope).map((run) => run[0] as number);
  const { hash } = model.trace.scopes;
  const closed = new Set<number>();
  // One part of each structure is enough to begin with.
  const known = new Set<number>();
  let boxes = contents(model, focus);
  const stack = [focus];
  while (stack.length > 0) {
    for (const run of runsIn(model, stack.pop() as number)) {
      const opened = run.filter((s) => open.has(s));
      if (opened.length === 0) closed.add(run[0] as number);
      for (const s of opened) {
        boxes += contents(model, s) - 1;
        known.add(hash[s] as number);
        stack.push(s);
      }
    }
  }
  if (boxes >= ENOUGH) return open;
  const next = new Set(open);
  for (;;) {
    let best = -1;
    for (const s of closed) {
      if (known.has(hash[s] as number)) continue;
      const inside = contents(model, s);
      if (boxes - 1 + inside > MOST || (boxes >= ENOUGH && inside > 1)) continue;
      if (best < 0 || (facts.nodes[s] as number) > (facts.nodes[best] as number)) best = s;
    }
    if (best < 0) return next;
    next.add(best);
    known.add(hash[best] as number);
    closed.delete(best);
    boxes += contents(model, best) - 1;
    for (const s of shown(best)) closed.add(s);
  }
}

/** A part with fewer operations says by its name what it does. */
const TELLING = 3;

/** The largest scopes in `focus` that can be open, one of each structure, so that the picture still fits. */
export function openThatFits(model: Model, focus: number, open: ReadonlySet<number>, fits: (open: ReadonlySet<number>) => boolean): ReadonlySet<number> {
  const { ops } = totalsOf(model);
  const { hash } = model.trace.scopes;
  let next = new Set(open);
  const tried = new Set<number>();
  for (;;) {
    let best = -1;
    const stack = [focus];
    while (stack.length > 0) {
      for (const run of runsIn(model, stack.pop() as number)) {
        const opened = run.filter((s) => next.has(s));
        stack.push(...opened);
        const first = run[0] as number;
        if (opened.length === 0 && !tried.has(hash[first] as number) && (ops[first] as number) >= TELLING && (best < 0 || (ops[first] as number) > (ops[best] as number))) best = first;
      }
    }
    if (best < 0) return next;
    tried.add(hash[best] as number);
    const more = new Set(next).add(best);
    if (fits(more)) next = more;
  }
}

/** Boxes that would be drawn. */
export function boxesIn(model: Model, focus: number, open: ReadonlySet<number>): number {
  let boxes = contents(model, focus);
  const stack = [focus];
  while (stack.length > 0) {
    for (const s of model.childScopes[stack.pop() as number] as number[]) {
      if (!open.has(s)) continue;
      boxes += contents(model, s) - 1;
      stack.push(s);
    }
  }
  return boxes;
}
