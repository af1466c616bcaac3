/** Where lines meet nodes, and the curves between. */
import type { Proper } from "./proper";
import type { LayoutEdge, LayoutNode, Outline, Route } from "./types";

/** How far in from the side of its frame an outline lies, at a distance `off` from the middle. */
export function inset(outline: Outline | undefined, width: number, height: number, off: number): number {
  const share = Math.min(1, Math.abs(off) / (height / 2));
  if (outline === "circle") return (width / 2) * (1 - Math.sqrt(1 - share * share));
  // A regular hexagon that stands on a corner: upright sides for its middle half.
  if (outline === "hexagon") return share <= 0.5 ? 0 : (width / 2) * (2 * share - 1);
  return 0;
}

/** Ends of the links at their nodes, measured from the middles: fixed, or spread so that straight lines stay straight. */
export function spreadPorts(
  graph: Proper,
  place: Float64Array,
  nodes: readonly LayoutNode[],
  edges: readonly LayoutEdge[],
  back: Uint8Array,
  portGap: number,
): { tail: Float64Array; head: Float64Array } {
  const tail = graph.tailPort.slice();
  const head = graph.headPort.slice();
  const spread = (
    v: number,
    links: Int32Array,
    ports: Float64Array,
    farEnd: Int32Array,
    farPorts: Float64Array,
    fixed: (edge: number) => boolean,
  ) => {
    const free: number[] = [];
    for (const link of links) if (!fixed(graph.edgeOf[link]!)) free.push(link);
    if (free.length < 2) return;
    const far = (link: number) => place[farEnd[link]!]! + farPorts[link]!;
    free.sort((a, b) => far(a) - far(b) || a - b);
    const straight = free.findIndex((link) => Math.abs(far(link) - place[v]!) < 0.5);
    const middle = straight >= 0 ? straight : (free.length - 1) / 2;
    const reach = 0.34 * nodes[v]!.height;
    const step = Math.min(portGap, reach / Math.max(middle, free.length - 1 - middle));
    free.forEach((link, i) => (ports[link] = (i - middle) * step));
  };
  for (let v = 0; v < graph.real; v++) {
    const out = graph.out.item.subarray(graph.out.start[v], graph.out.start[v + 1]);
    const into = graph.into.item.subarray(graph.into.start[v], graph.into.start[v + 1]);
    spread(v, out, tail, graph.head, graph.headPort, (e) => back[e] === 1 || edges[e]!.fromPort !== undefined);
    spread(v, into, head, graph.tail, graph.tailPort, (e) => back[e] === 1 || edges[e]!.toPort !== undefined);
  }
  return { tail, head };
}

/** Radius of the corners of lines that go around something. */
const CORNER = 24;

/** Collects the pieces of one curve; straight pieces that continue each other become one. */
export class Pen {
  private readonly out: number[];
  private straight = false;

  constructor(x: number, y: number) {
    this.out = [x, y];
  }

  private get x(): number {
    return this.out[this.out.length - 2]!;
  }

  private get y(): number {
    return this.out[this.out.length - 1]!;
  }

  /** Where the pen is across the page. */
  get height(): number {
    return this.y;
  }

  line(x: number, y: number): this {
    if (x === this.x && y === this.y) return this;
    const level = y === this.y;
    if (level && this.straight) this.out.length -= 6;
    const [x0, y0] = [this.x, this.y];
    this.out.push(x0 + (x - x0) / 3, y0 + (y - y0) / 3, x0 + (2 * (x - x0)) / 3, y0 + (2 * (y - y0)) / 3, x, y);
    this.straight = level;
    return this;
  }

  /** To a point further on, leaving and arriving level. */
  bend(x: number, y: number): this {
    if (Math.abs(y - this.y) < 1e-9) return this.line(x, y);
    const reach = (x - this.x) * 0.5;
    this.out.push(this.x + reach, this.y, x - reach, y, x, y);
    this.straight = false;
    return this;
  }

  /** Around to a line that runs the other way: `reach` is how far out the turn goes, with its sign. */
  turn(y: number, reach: number): this {
    const swing = (reach * 4) / 3;
    this.out.push(this.x + swing, this.y, this.x + swing, y, this.x, y);
    this.straight = false;
    return this;
  }

  /** Two quarter turns down or up a gap between ranks: to a level line that leaves in the direction of `x`. */
  detour(viaX: number, y: number, x: number): this {
    const down = Math.sign(y - this.y);
    const radius = Math.min(CORNER, Math.abs(y - this.y) / 2, Math.abs(viaX - this.x), Math.max(4, Math.abs(x - viaX)));
    this.line(viaX - Math.sign(viaX - this.x) * radius, this.y);
    this.corner(viaX, this.y + down * radius, true);
    this.line(viaX, y - down * radius);
    this.corner(viaX + Math.sign(x - viaX) * radius, y, false);
    return this.line(x, y);
  }

  private corner(x: number, y: number, level: boolean): void {
    const k = 0.5523;
    const [dx, dy] = [x - this.x, y - this.y];
    if (level) this.out.push(this.x + k * dx, this.y, x, y - k * dy, x, y);
    else this.out.push(this.x, this.y + k * dy, x - k * dx, y, x, y);
    this.straight = false;
  }

  done(): Route {
    return Float64Array.from(this.out);
  }
}
