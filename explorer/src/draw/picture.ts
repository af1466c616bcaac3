/** One call from a recorded graph to what there is to draw: the visible graph, its layout, and its looks at rest. */
import { fold, type FoldOptions, type VisibleGraph } from "../fold/fold";
import { nested, type LayoutCache, type NestedLayout } from "../layout/nested";
import type { Model } from "../trace/model";
import { baseEdge, baseLook, boxSize, type EdgeLook, type Metrics, type NodeLook } from "./looks";
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
  /** Keep one per view: what has not changed is not laid out again. */
  readonly cache?: LayoutCache;
}

export function pictureOf(model: Model, options: PictureOptions): Picture {
  const { metrics, measure = estimatedWidth, cache = new Map() } = options;
  const graph = fold(model, options);
  const nodes = graph.items.map((item) => baseLook(model, item));
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
      ...(options.wrapWidth === undefined ? {} : { wrapWidth: options.wrapWidth }),
      size: (item) => sizes.get(item)!,
    },
    cache,
  );
  return { graph, layout, nodes, edges: graph.edges.map((edge) => baseEdge(model, edge)), metrics, measure };
}
