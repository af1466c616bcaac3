/** One call from a recorded graph to what there is to draw: the visible graph, its layout, and its looks at rest. */
import { fold, type FoldOptions } from "../fold/fold";
import type { Item, VisibleGraph } from "../fold/visible";
import { busOf } from "../layout/bus";
import { nested, type LayoutCache, type NestedLayout } from "../layout/nested";
import * as rows from "../layout/wrap";
import { opOf, type Model } from "../trace/model";
import { foldedLook } from "./folded_looks";
import { baseEdge, boxSize, type EdgeLook, type Metrics, type NodeLook } from "./looks";
import { estimatedWidth, type TextMeasure } from "./text";

export interface Picture {
  readonly graph: VisibleGraph;
  readonly layout: NestedLayout;
  /** One per item and one per edge of the graph, when the whole run has happened. Views change copies of them. */
  readonly nodes: readonly NodeLook[];
  readonly edges: readonly EdgeLook[];
  readonly metrics: Metrics;
  readonly measure: TextMeasure;
}

export interface PictureOptions extends FoldOptions {
  readonly metrics: Metrics;
  readonly measure?: TextMeasure;
  /** Chains wider than this go on in a new row. */
  readonly wrapWidth?: number;
  /** Rows are broken as soon as they are wider, however high the picture becomes. */
  readonly wrapStrictly?: boolean;
  /** Draws what sums only add to as a bus, and ports at the borders. */
  readonly bus?: boolean;
  /** Keep one per view: what has not changed is not laid out again. */
  readonly cache?: LayoutCache;
}

export function pictureOf(model: Model, options: PictureOptions): Picture {
  const { metrics, measure = estimatedWidth, cache = new Map() } = options;
  const graph = fold(model, options);
  const nodes = graph.items.map((item) => foldedLook(model, item));
  const { rankGap, nodeGap, edgeGap, portGap, padding, header } = metrics;
  const sizes = new Map(graph.items.map((item, i) => [item, boxSize(nodes[i]!, metrics, measure)]));
  const layout = nested(
    graph,
    model.trace.nodes.scope,
    model.trace.scopes.parent,
    {
      rankGap,
      nodeGap,
      edgeGap,
      portGap,
      padding,
      header,
      ...(options.wrapWidth === undefined ? {} : { wrapWidth: options.wrapWidth, rows }),
      ...(options.wrapStrictly === undefined ? {} : { wrapStrictly: options.wrapStrictly }),
      ...(options.bus === true ? { bus: { find: busOf, isSum: (item: Item) => isSum(model, item) }, pin: (item: Item) => pinOf(model, item) } : {}),
      size: (item) => sizes.get(item)!,
    },
    cache,
  );
  return { graph, layout, nodes, edges: graph.edges.map((edge) => baseEdge(model, edge)), metrics, measure };
}

function isSum(model: Model, item: Item): boolean {
  return item.kind === "node" && (model.trace.nodes.op[item.node] as number) >= 0 && opOf(model, item.node) === "add";
}

/** What other parts have computed comes in at the left border, and what goes to them leaves at the right one. */
function pinOf(model: Model, item: Item): "first" | "last" | undefined {
  if (item.kind !== "port") return undefined;
  if (item.entering !== true) return "last";
  return (model.trace.nodes.op[item.node] as number) >= 0 ? "first" : undefined;
}
