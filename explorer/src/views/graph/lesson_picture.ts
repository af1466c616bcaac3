/** The picture of a small graph at a place of the clock: which values and gradients are there, what happens now. */
import {
  DENSE,
  LESSON,
  baseEdge,
  baseLook,
  boxSize,
  laneWidth,
  type EdgeLook,
  type Lane,
  type Metrics,
  type NodeLook,
} from "../../draw/looks";
import { displayList } from "../../draw/scene";
import type { DisplayList } from "../../draw/display";
import type { TextMeasure } from "../../draw/text";
import { copyAlong } from "../../fold/copies";
import { scopeFacts, wholeGraph, type Item, type VisibleEdge, type VisibleGraph } from "../../fold/visible";
import { shownNumber } from "../../format";
import { nested, type NestedLayout } from "../../layout/nested";
import * as rows from "../../layout/wrap";
import type { Route } from "../../layout/types";
import { carries, edgeGradient, hasGradient, hasHanded, hasTurned, hasValue } from "../../panels/lesson/progress";
import type { Numbers } from "../../state";
import { codeOfRms } from "../../trace/decode";
import { edgesAt, kindOf, modelOf, phaseAt, recordedValue, type Model } from "../../trace/model";

/** What does not change with the clock: the visible graph and where everything stands. */
export interface Stage {
  readonly model: Model;
  readonly graph: VisibleGraph;
  readonly layout: NestedLayout;
  readonly nodes: readonly NodeLook[];
  readonly edges: readonly EdgeLook[];
  readonly metrics: Metrics;
  readonly measure: TextMeasure;
  /** Whether it goes on in other rows where one is too long. */
  readonly inRows: boolean;
}

/** Closer together, and closer with smaller shapes, for pictures that would else be too small for their numbers to be read. */
const NARROW: Metrics = { ...LESSON, rankGap: 50, nodeGap: 38 };
const NARROWEST: Metrics = { ...NARROW, op: 42, circle: 46, hexagon: [46, 52], root: 50, symbolSize: 23, rankGap: 43, nodeGap: 54 };
const IN_ROWS: Metrics = { ...NARROWEST, nodeGap: 30, padding: 18, header: 20 };
const SIZES = [LESSON, NARROW, NARROWEST, IN_ROWS] as const;
/** How much room a lesson has: 0 is plenty; 3 goes on in another row. */
export type Narrow = 0 | 1 | 2 | 3;

/** Above so many nodes numbers stand inside the boxes: on the edges they would have no room. */
const SPARSE = 40;

export function stageOf(recorded: Model, measure: TextMeasure, narrow: Narrow = 0, wrapWidth = 0): Stage {
  const metrics = recorded.nodes > SPARSE ? DENSE : SIZES[narrow];
  const model = withModulesOnly(recorded);
  const graph = wholeGraph(model);
  const nodes = graph.items.map((item) => baseLook(model, item));
  const edges = graph.edges.map((edge) => baseEdge(model, edge));
  const looks = new Map(graph.items.map((item, i) => [item, nodes[i] as NodeLook]));
  const layout = nested(graph, model.trace.nodes.scope, model.trace.scopes.parent, {
    ...metrics,
    ...(narrow === 3 ? { rows, wrapWidth, wrapStrictly: true } : {}),
    size: (item: Item) => boxSize(looks.get(item) as NodeLook, metrics, measure),
  });
  return { model, graph, layout, nodes, edges, metrics, measure, inRows: narrow === 3 };
}

/**
 * The same run, its scopes reduced to modules: frames around loops and lines would leave a small graph no room. A module
 * that holds everything, or a single node, says nothing either.
 */
export function withModulesOnly(model: Model): Model {
  const { scopes, nodes } = model.trace;
  const { nodes: sizes } = scopeFacts(model);
  const total = nodes.op.length;
  const kept = scopes.parent.map(
    (_, row) =>
      row === 0 || (scopes.kind[row] === "module" && (sizes[row] as number) > 1 && (sizes[row] as number) < total),
  );
  const rows = scopes.parent.flatMap((_, row) => (kept[row] ? [row] : []));
  const newRow = new Map(rows.map((row, i) => [row, i]));
  const frame = (row: number): number =>
    kept[row] === true ? (newRow.get(row) as number) : frame(scopes.parent[row] as number);
  const pick = <T>(column: readonly T[]) => rows.map((row) => column[row] as T);
  return modelOf({
    ...model.trace,
    scopes: {
      parent: rows.map((row) => (row === 0 ? -1 : frame(scopes.parent[row] as number))),
      name: pick(scopes.name),
      kind: pick(scopes.kind),
      // Equal modules are not folded: every node is shown.
      hash: rows.map((_, i) => i),
    },
    nodes: { ...nodes, scope: nodes.scope.map(frame) },
  });
}

/** What the picture shows beyond the recording. */
export interface Moment {
  readonly numbers: Numbers;
  readonly cursor: number;
  readonly selected: number;
  readonly hovered: number;
  readonly selectedEdge: number;
  readonly moved: ReadonlyMap<number, number>;
  /** Edges with a band under them; those on paths from the selected node to the loss if not given. */
  readonly band?: ReadonlySet<number>;
}

/** Digits of the numbers on the lanes. */
const DIGITS = 3;

export function picture(stage: Stage, moment: Moment): DisplayList {
  const band = moment.band ?? bandOf(stage.model, moment);
  return displayList({
    graph: stage.graph,
    layout: stage.layout,
    nodes: stage.graph.items.map((item, i) => nodeLook(stage, item, stage.nodes[i] as NodeLook, moment)),
    edges: stage.graph.edges.map((edge, i) => edgeLook(stage, edge, stage.edges[i] as EdgeLook, moment, band)),
    metrics: stage.metrics,
    measure: stage.measure,
  });
}

/** Edges on paths from the selected node to the loss. */
function bandOf(model: Model, { selected }: Moment): ReadonlySet<number> {
  const root = model.trace.meta.roots[0];
  if (selected < 0 || root === undefined || selected === root) return new Set();
  const [ahead, behind] = [new Set([selected]), new Set([root])];
  // Edges stand in the order of their ends, and operands before what is made of them.
  const rows = Array.from(model.src, (_, row) => row);
  for (const row of rows) if (ahead.has(model.src[row] as number)) ahead.add(model.dst[row] as number);
  for (const row of [...rows].reverse()) if (behind.has(model.dst[row] as number)) behind.add(model.src[row] as number);
  return new Set(rows.filter((row) => ahead.has(model.src[row] as number) && behind.has(model.dst[row] as number)));
}

function nodeLook(stage: Stage, item: Item, base: NodeLook, moment: Moment): NodeLook {
  const { model } = stage;
  const { cursor } = moment;
  if (item.kind !== "node") return base;
  const { node } = item;
  const happening = cursor > 0 && model.trace.events.node[cursor - 1] === node;
  const back = happening && phaseAt(model, cursor - 1) === "backward";
  const known = [moment.numbers.value(node), moment.numbers.gradient(node)].filter((x) => x !== null);
  return {
    ...base,
    // Of single numbers what is there now, and not what was recorded before a leaf was moved.
    bad: known.length > 0 ? !known.every(Number.isFinite) : (base.bad ?? false),
    waiting: !hasValue(model, node, cursor),
    selected: moment.selected === node,
    hovered: moment.hovered === node,
    glow: happening ? (back ? "grad" : "op") : undefined,
    ...(stage.metrics.inside === undefined
      ? { above: patternAbove(model, node, back), below: wordsBelow(model, node, moment) }
      : { numbers: numbersIn(model, node, moment) }),
  };
}

/** What stands inside a box: exact where it is a single number, else its shape. */
function numbersIn(model: Model, node: number, { numbers, cursor }: Moment): NodeLook["numbers"] {
  const shape = model.trace.shapes[model.trace.nodes.shape[node] as number] ?? [];
  const shown = (x: number | null) => (x === null ? `[${shape.join("×")}]` : shownNumber(x, DIGITS));
  return {
    value: hasValue(model, node, cursor) ? shown(numbers.value(node)) : "",
    gradient: hasGradient(model, node, cursor) ? shown(numbers.gradient(node)) : "",
  };
}

function patternAbove(model: Model, node: number, live: boolean): NodeLook["above"] {
  const op = model.trace.nodes.op[node] as number;
  const pattern = op < 0 ? "none" : model.trace.ops.pattern[op];
  return pattern === undefined || pattern === "none" ? undefined : { text: pattern, token: live ? "grad" : "muted" };
}

function wordsBelow(model: Model, node: number, moment: Moment): NodeLook["below"] {
  if (moment.moved.has(node)) {
    return { text: `was ${shownNumber(recordedValue(model, node) ?? Number.NaN)}`, token: "muted" };
  }
  const { roots } = model.trace.meta;
  if (node !== roots[0] || model.turn >= model.events) return undefined;
  const seed = moment.numbers.gradient(node);
  if (seed === null || !hasTurned(model, moment.cursor)) return undefined;
  return { text: `starts with ${shownNumber(seed)}`, token: "muted" };
}

function edgeLook(
  stage: Stage,
  edge: VisibleEdge,
  base: EdgeLook,
  moment: Moment,
  band: ReadonlySet<number>,
): EdgeLook {
  const { model } = stage;
  const first = edge.rows[0] as number;
  const node = model.src[first] as number;
  const single = edge.rows.length === 1;
  const value = hasValue(model, node, moment.cursor)
    ? { ...base.value, ...valueLane(stage, node, moment, edge) }
    : null;
  return {
    value: value as Lane | null,
    gradient: gradientLane(stage, edge, base, moment),
    band: band.has(first) ? "gradFill" : undefined,
    selected: single && moment.selectedEdge === first,
    mark: markOf(stage, first),
  };
}

/** "→ [24]": what a value is copied to on its way. */
function markOf({ model, metrics }: Stage, row: number): string | undefined {
  const copy = copyAlong(model, row);
  if (copy < 0 || metrics.inside !== undefined) return undefined;
  const shape = model.trace.shapes[model.trace.nodes.shape[copy] as number] ?? [];
  return `copied → [${shape.join("×")}]`;
}

function valueLane(stage: Stage, node: number, { numbers }: Moment, edge: VisibleEdge): Partial<Lane> {
  const value = edge.values.length === 1 ? numbers.value(node) : null;
  const bad = value !== null && Number.isNaN(value);
  if (stage.metrics.inside !== undefined) return { bad };
  return { bad, chip: value === null ? shapeOn(stage, node) : shownNumber(value, DIGITS) };
}

/** What stands on a lane that carries no single number: "[24]" for 24 of them. */
function shapeOn({ model }: Stage, node: number): string | undefined {
  const shape = model.trace.shapes[model.trace.nodes.shape[node] as number] ?? [];
  return shape.length === 0 ? undefined : `[${shape.join("×")}]`;
}

/** Gradients along edges that share a line are summed, as they would be at the value that they go to. */
function gradientLane(stage: Stage, edge: VisibleEdge, base: EdgeLook, { numbers, cursor }: Moment): Lane | null {
  const { model } = stage;
  const rows = Array.from(edge.rows).filter((row) => hasHanded(model, row, cursor));
  if (rows.length === 0) return null;
  const parts = rows.map((row) => edgeGradient(model, numbers, row) ?? wholeGradient(model, numbers, row));
  if (parts.includes(null)) {
    if (stage.metrics.inside !== undefined) return base.gradient;
    return base.gradient && { ...base.gradient, chip: shapeOn(stage, model.src[rows[0] as number] as number) };
  }
  const sum = parts.reduce<number>((a, b) => a + (b ?? 0), 0);
  const lane = { width: laneWidth(codeOfRms(sum)), bad: Number.isNaN(sum) };
  return stage.metrics.inside === undefined ? { ...lane, chip: shownNumber(sum, DIGITS) } : lane;
}

/** What arrives at a single number along its only edge is its gradient, whatever the other end is. */
function wholeGradient(model: Model, numbers: Numbers, row: number): number | null {
  const node = model.src[row] as number;
  return edgesAt(model.consumers, node).length === 1 ? numbers.gradient(node) : null;
}

/** Where something flows right now: routes with the way it goes, for dots that travel along them. */
export interface Flow {
  readonly route: Route;
  readonly back: boolean;
  /** Whether the edge shows both lanes: a lone one runs in the middle. */
  readonly lanes: boolean;
}

export function flowsAt(stage: Stage, cursor: number): Flow[] {
  const { model, graph, layout } = stage;
  if (cursor <= 0) return [];
  const node = model.trace.events.node[cursor - 1] as number;
  const back = phaseAt(model, cursor - 1) === "backward";
  return layout.segments
    .filter((segment) =>
      segment.edges.some((e) =>
        Array.from((graph.edges[e] as VisibleEdge).rows).some(
          (row) => (model.dst[row] === node || model.dst[copyOut(stage, row)] === node) && (!back || carries(model, row)),
        ),
      ),
    )
    .map((segment) => ({
      route: segment.route,
      back,
      lanes: segment.edges.some((e) =>
        Array.from((graph.edges[e] as VisibleEdge).rows).some((row) => hasHanded(model, row, cursor)),
      ),
    }));
}

/** The edge on which a value goes on that is copied on its way, or -1. */
function copyOut({ model }: Stage, row: number): number {
  const copy = copyAlong(model, row);
  return copy < 0 ? -1 : (edgesAt(model.consumers, copy)[0] ?? -1);
}

/** The node that an item of the visible graph stands for, or -1. */
export function nodeOf(stage: Stage, item: number): number {
  const found = stage.graph.items[item];
  return found?.kind === "node" ? found.node : -1;
}

/** The node whose value goes along an edge of the visible graph. */
export function sourceOf(stage: Stage, edge: number): number {
  const row = stage.graph.edges[edge]?.rows[0];
  return row === undefined ? -1 : (stage.model.src[row] as number);
}

/** The picture in words, for screen readers. */
export function described(model: Model, cursor: number): string {
  const there = Array.from({ length: model.nodes }, (_, node) => node);
  const values = there.filter((node) => hasValue(model, node, cursor)).length;
  const gradients = there.filter((node) => hasGradient(model, node, cursor)).length;
  const leaves = there.filter((node) => kindOf(model, node) !== "op" && kindOf(model, node) !== "root").length;
  return `Graph of ${model.nodes} nodes, ${leaves} of them leaves; ${values} have values, ${gradients} have gradients.`;
}
