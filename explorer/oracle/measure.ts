/** What a picture is judged by: lines that cross, and lines that run through nodes that are not their ends. */
import type { LayoutGraph, Route } from "../src/layout/types";

/** A drawn graph, whoever drew it: middles of nodes, and each edge as a line through points. */
export interface Picture {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
  readonly lines: readonly (readonly number[])[];
}

/** Points along a curve, close enough for lines through them to cross where the curve does. */
export function sampled(route: Route, steps = 12): number[] {
  const points = [route[0]!, route[1]!];
  for (let i = 2; i < route.length; i += 6) {
    const [x0, y0] = [route[i - 2]!, route[i - 1]!];
    for (let k = 1; k <= steps; k++) {
      const t = k / steps;
      const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
      points.push(a * x0 + b * route[i]! + c * route[i + 2]! + d * route[i + 4]!, a * y0 + b * route[i + 1]! + c * route[i + 3]! + d * route[i + 5]!);
    }
  }
  return points;
}

interface Segment {
  readonly edge: number;
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
}

function segmentsOf(picture: Picture): Segment[] {
  const segments: Segment[] = [];
  picture.lines.forEach((line, edge) => {
    for (let i = 2; i < line.length; i += 2) {
      const [x0, y0, x1, y1] = [line[i - 2]!, line[i - 1]!, line[i]!, line[i + 1]!];
      segments.push(x0 <= x1 ? { edge, x0, y0, x1, y1 } : { edge, x0: x1, y0: y1, x1: x0, y1: y0 });
    }
  });
  return segments.sort((a, b) => a.x0 - b.x0);
}

/** Number of points in which lines of different edges properly cross. */
export function crossings(picture: Picture): number {
  const segments = segmentsOf(picture);
  let count = 0;
  let active: Segment[] = [];
  for (const s of segments) {
    active = active.filter((other) => other.x1 >= s.x0);
    for (const other of active) if (other.edge !== s.edge && cross(s, other)) count++;
    active.push(s);
  }
  return count;
}

function cross(a: Segment, b: Segment): boolean {
  const side = (s: Segment, x: number, y: number) => (s.x1 - s.x0) * (y - s.y0) - (s.y1 - s.y0) * (x - s.x0);
  return side(a, b.x0, b.y0) * side(a, b.x1, b.y1) < -1e-6 && side(b, a.x0, a.y0) * side(b, a.x1, a.y1) < -1e-6;
}

/** Pairs of an edge and a node that is not its end, where the line enters the node by more than `slack`. */
export function throughNodes(graph: LayoutGraph, picture: Picture, slack = 1): number {
  let count = 0;
  picture.lines.forEach((line, e) => {
    const { from, to } = graph.edges[e]!;
    graph.nodes.forEach((node, v) => {
      if (v === from || v === to) return;
      const half = [node.width / 2 - slack, node.height / 2 - slack] as const;
      for (let i = 2; i < line.length; i += 2) {
        if (hits(line[i - 2]! - picture.x[v]!, line[i - 1]! - picture.y[v]!, line[i]! - picture.x[v]!, line[i + 1]! - picture.y[v]!, half)) {
          count++;
          return;
        }
      }
    });
  });
  return count;
}

/** Whether the segment meets the box around the origin (Liang and Barsky). */
function hits(x0: number, y0: number, x1: number, y1: number, [w, h]: readonly [number, number]): boolean {
  let [enter, leave] = [0, 1];
  for (const [d, p, half] of [[x1 - x0, x0, w], [y1 - y0, y0, h]] as const) {
    if (d === 0) {
      if (Math.abs(p) >= half) return false;
      continue;
    }
    const [a, b] = [(-half - p) / d, (half - p) / d];
    enter = Math.max(enter, Math.min(a, b));
    leave = Math.min(leave, Math.max(a, b));
  }
  return enter < leave;
}
