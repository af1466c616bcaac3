/** The same graph drawn by this layout, by dagre and by elk, for comparison in tests only. */
import dagre from "@dagrejs/dagre";
import ELK, { type ElkExtendedEdge } from "elkjs/lib/elk.bundled.js";
import { layered } from "../src/layout/layered";
import type { LayoutGraph } from "../src/layout/types";
import { sampled, type Picture } from "./measure";

export function ours(graph: LayoutGraph): Picture {
  const { x, y, routes } = layered(graph, { nodeGap: 30 });
  return { x, y, lines: routes.map((route) => sampled(route)) };
}

export function byDagre(graph: LayoutGraph): Picture {
  const g = new dagre.graphlib.Graph({ multigraph: true });
  g.setGraph({ rankdir: "LR", nodesep: 30, ranksep: 80 });
  graph.nodes.forEach(({ width, height }, v) => g.setNode(String(v), { width, height }));
  graph.edges.forEach(({ from, to }, e) => g.setEdge(String(from), String(to), {}, String(e)));
  dagre.layout(g);
  const at = graph.nodes.map((_, v) => g.node(String(v)));
  return {
    x: at.map(({ x }) => x as number),
    y: at.map(({ y }) => y as number),
    lines: graph.edges.map(({ from, to }, e) =>
      g.edge(String(from), String(to), String(e)).points!.flatMap((p: { x: number; y: number }) => [p.x, p.y]),
    ),
  };
}

const elk = new ELK();

export async function byElk(graph: LayoutGraph): Promise<Picture> {
  const drawn = await elk.layout({
    id: "root",
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "RIGHT",
      "elk.edgeRouting": "POLYLINE",
      "elk.spacing.nodeNode": "30",
      "elk.layered.spacing.nodeNodeBetweenLayers": "80",
    },
    children: graph.nodes.map(({ width, height }, v) => ({ id: String(v), width, height })),
    edges: graph.edges.map(({ from, to }, e) => ({ id: `e${e}`, sources: [String(from)], targets: [String(to)] })),
  });
  const children = drawn.children!;
  return {
    x: children.map((c, v) => c.x! + graph.nodes[v]!.width / 2),
    y: children.map((c, v) => c.y! + graph.nodes[v]!.height / 2),
    lines: (drawn.edges as ElkExtendedEdge[]).map(({ sections }) => {
      const { startPoint, bendPoints, endPoint } = sections![0]!;
      return [startPoint, ...(bendPoints ?? []), endPoint].flatMap((p) => [p.x, p.y]);
    }),
  };
}
