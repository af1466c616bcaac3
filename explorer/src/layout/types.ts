/**
 * What the layered layout takes and gives.
 *
 * Pictures read from left to right: ranks are columns (x), and "across" means down the page (y).
 */

/** How a node's outline meets a line that comes in off its middle. */
export type Outline = "box" | "circle" | "hexagon";

export interface LayoutNode {
  readonly width: number;
  readonly height: number;
  readonly outline?: Outline;
  /** Room to keep free below the node, for what is written there. */
  readonly below?: number;
  /** Keeps the node in the first or the last rank: the ports of a container. */
  readonly pin?: "first" | "last";
}

export interface LayoutEdge {
  readonly from: number;
  readonly to: number;
  /** Fixed places on the right side of `from` and the left side of `to`, measured from their middles. */
  readonly fromPort?: number;
  readonly toPort?: number;
  /** Part of the bus: its nodes stand above all others of their ranks, and the line between them is straight. */
  readonly bus?: boolean;
}

export interface LayoutGraph {
  readonly nodes: readonly LayoutNode[];
  /** Edges into one node in the order of its operands: of two equally good pictures the one in that order is drawn. */
  readonly edges: readonly LayoutEdge[];
}

export type Rows = typeof import("./wrap");

export interface LayoutOptions {
  /** Least room between two ranks, two nodes of a rank, two lines that pass a rank. */
  readonly rankGap: number;
  readonly nodeGap: number;
  readonly edgeGap: number;
  /** Distance between the ends of edges that share the side of a node. */
  readonly portGap: number;
  /** Pictures much wider than this continue in a new row, like text. */
  readonly wrapWidth: number;
  /** What breaks rows: not every picture does, and those that do not need not carry it. Null for none. */
  readonly rows: Rows | null;
  /** Breaks rows as soon as they are wider, however high the picture becomes: it is then moved, not made smaller. */
  readonly wrapStrictly: boolean;
}

export const LAYOUT_DEFAULTS: LayoutOptions = {
  rankGap: 80,
  nodeGap: 36,
  edgeGap: 20,
  portGap: 14,
  wrapWidth: Infinity,
  rows: null,
  wrapStrictly: false,
};

/**
 * A curve of cubic Bezier pieces: x0, y0, and then (c1x, c1y, c2x, c2y, x, y) for each piece.
 * Straight pieces have their controls on the line.
 */
export type Route = Float64Array;

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Layout {
  /** Middles of the nodes. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** Column of each node, counted within its connected part. */
  readonly rank: Int32Array;
  /** One per edge; empty for an edge from a node to itself. */
  readonly routes: readonly Route[];
  readonly bounds: Rect;
}
