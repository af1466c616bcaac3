/** One side of a comparison as a picture: its own nodes and edges at the places of the common layout. */
import { SURVEY } from "../../draw/folded_looks";
import { baseEdge, baseLook, boxSize, type EdgeLook, type NodeLook } from "../../draw/looks";
import { displayList, type Scene } from "../../draw/scene";
import type { DisplayList } from "../../draw/display";
import { estimatedWidth, type TextMeasure } from "../../draw/text";
import type { Item, VisibleEdge, VisibleGraph } from "../../fold/visible";
import { layered } from "../../layout/layered";
import type { Layout } from "../../layout/types";
import type { Model } from "../../trace/model";
import type { Change, Union, UnionNode } from "./union";

export interface Common {
  union: Union;
  layout: Layout;
  sizes: readonly { width: number; height: number }[];
}

export function commonLayout(a: Model, b: Model, union: Union, measure: TextMeasure = estimatedWidth): Common {
  const sizes = union.nodes.map((node) => {
    // A node that changed its operation needs room for both.
    const boxes = [node.a >= 0 ? boxOf(a, node.a, measure) : null, node.b >= 0 ? boxOf(b, node.b, measure) : null].filter((box) => box !== null);
    const [first] = boxes as [ReturnType<typeof boxOf>];
    return { ...first, width: Math.max(...boxes.map((box) => box.width)), height: Math.max(...boxes.map((box) => box.height)) };
  });
  const { rankGap, nodeGap, edgeGap, portGap } = SURVEY;
  const layout = layered({ nodes: sizes, edges: union.edges }, { rankGap, nodeGap: nodeGap + 8, edgeGap, portGap });
  return { union, layout, sizes };
}

function itemOf(node: number): Item {
  return { kind: "node", node, scope: 0, parent: -1, open: false, members: [], nodes: 1, params: 0 };
}

function boxOf(model: Model, node: number, measure: TextMeasure) {
  return boxSize(baseLook(model, itemOf(node)), SURVEY, measure);
}

/** What changed is said in a word and marked by a frame of light; lines that only this side has are wide bands. */
const MARKS: Readonly<Record<Exclude<Change, "same">, { text: string; token: "kernel" | "bad" | "op" }>> = {
  added: { text: "+ added", token: "kernel" },
  removed: { text: "− removed", token: "bad" },
  changed: { text: "≠ changed", token: "op" },
};

export interface Side {
  list: DisplayList;
  /** The union's row of each item. */
  rows: readonly number[];
}

export function sideOf(model: Model, common: Common, which: "a" | "b", selected: number, measure: TextMeasure = estimatedWidth): Side {
  const { union, layout, sizes } = common;
  const rows = union.nodes.flatMap((node, i) => (node[which] >= 0 ? [i] : []));
  const itemAt = new Int32Array(union.nodes.length).fill(-1);
  rows.forEach((row, i) => (itemAt[row] = i));
  const items = rows.map((row) => itemOf((union.nodes[row] as UnionNode)[which]));
  const there = union.edges.flatMap((edge, e) => (which === "a" ? edge.inA : edge.inB) ? [e] : []);
  const edges = there.map((e) => visibleEdge(model, union, e, itemAt, which));
  const graph: VisibleGraph = { items, edges, itemOf: new Int32Array(0), seenAs: new Int32Array(0), boxes: items.length };
  const boxes = rows.map((row) => {
    const { width, height } = sizes[row] as { width: number; height: number };
    return { x: (layout.x[row] as number) - width / 2, y: (layout.y[row] as number) - height / 2, width, height };
  });
  const segments = there.map((e, i) => ({ route: layout.routes[e] as Layout["routes"][number], from: edges[i]?.from ?? -1, to: edges[i]?.to ?? -1, edges: [i] }));
  const nodes: NodeLook[] = items.map((item, i) => {
    const row = rows[i] as number;
    const base = { ...baseLook(model, item), selected: row === selected };
    const change = (union.nodes[row] as UnionNode).change;
    return change === "same" ? { ...base, dim: false } : { ...base, bad: change === "removed", above: MARKS[change], glow: MARKS[change].token };
  });
  const looks: EdgeLook[] = edges.map((edge, i) => {
    const both = union.edges[there[i] as number];
    const only = both !== undefined && both.inA !== both.inB;
    return { ...baseEdge(model, edge), ...(only ? { band: which === "a" ? ("badFill" as const) : ("kernelFill" as const) } : {}) };
  });
  const scene: Scene = { graph, layout: { boxes, segments, bounds: layout.bounds }, nodes, edges: looks, metrics: SURVEY, measure };
  return { list: displayList(scene), rows };
}

function visibleEdge(model: Model, union: Union, e: number, itemAt: Int32Array, which: "a" | "b"): VisibleEdge {
  const { from, to } = union.edges[e] as Union["edges"][number];
  const [src, dst] = [(union.nodes[from] as UnionNode)[which], (union.nodes[to] as UnionNode)[which]];
  const { start, edge } = model.operands;
  const rows: number[] = [];
  for (let k = start[dst] as number; k < (start[dst + 1] as number); k++) if (model.src[edge[k] as number] === src) rows.push(edge[k] as number);
  return { from: itemAt[from] as number, to: itemAt[to] as number, rows: Int32Array.from(rows), values: Int32Array.of(src), firstRows: Int32Array.from(rows.slice(0, 1)), size: 1 };
}
