/**
 * Layered layout of a directed graph, from left to right.
 *
 * Ranks, order within ranks, places across, columns along, curves: the steps of Sugiyama, Tagawa and Toda
 * (1981), each in its own file. Lines bend only between columns, and have room of their own where they
 * pass one, so no line runs through a node that is not its end. Nothing here is random or timed: equal
 * graphs give equal pictures. Nothing recurses over nodes: depth is bounded only by memory.
 */
import { orderRows } from "./order";
import { placeRows } from "./place";
import { properOf, type Proper } from "./proper";
import { assignRanks, backEdges, wires, type Wires } from "./ranks";
import { inset, Pen, spreadPorts } from "./routes";
import { LAYOUT_DEFAULTS, type Layout, type LayoutGraph, type LayoutOptions, type Rect, type Route } from "./types";
import type { Wrap } from "./wrap";

export function layered(graph: LayoutGraph, options: Partial<LayoutOptions> = {}): Layout {
  const all = { ...LAYOUT_DEFAULTS, ...options };
  const parts = connectedParts(graph);
  if (parts.length === 1) return layoutPart(graph, all);
  return packed(graph, parts, all);
}

// -- parts

interface Part {
  readonly nodes: number[];
  readonly edges: number[];
}

/** Connected parts in the order of their first nodes. Pinned nodes tie the whole graph together. */
function connectedParts(graph: LayoutGraph): Part[] {
  const count = graph.nodes.length;
  if (count === 0 || graph.nodes.some((node) => node.pin)) return [{ nodes: [], edges: [] }];
  const parent = Int32Array.from({ length: count }, (_, v) => v);
  const find = (v: number): number => {
    while (parent[v] !== v) v = parent[v] = parent[parent[v]!]!;
    return v;
  };
  for (const { from, to } of graph.edges) {
    const [a, b] = [find(from), find(to)];
    if (a !== b) parent[Math.max(a, b)] = Math.min(a, b);
  }
  const parts: Part[] = [];
  const partOf = new Int32Array(count).fill(-1);
  for (let v = 0; v < count; v++) {
    const root = find(v);
    if (partOf[root]! < 0) partOf[root] = parts.push({ nodes: [], edges: [] }) - 1;
    parts[partOf[root]!]!.nodes.push(v);
  }
  graph.edges.forEach(({ from }, e) => parts[partOf[find(from)]!]!.edges.push(e));
  return parts;
}

/** Each part on its own, side by side on shelves of about the shape of a page. */
function packed(graph: LayoutGraph, parts: readonly Part[], options: LayoutOptions): Layout {
  const x = new Float64Array(graph.nodes.length);
  const y = new Float64Array(graph.nodes.length);
  const rank = new Int32Array(graph.nodes.length);
  const routes: Route[] = graph.edges.map(() => new Float64Array(0));
  const index = new Int32Array(graph.nodes.length);
  const layouts = parts.map((part) => {
    part.nodes.forEach((v, i) => (index[v] = i));
    const nodes = part.nodes.map((v) => graph.nodes[v]!);
    const edges = part.edges.map((e) => {
      const edge = graph.edges[e]!;
      return { ...edge, from: index[edge.from]!, to: index[edge.to]! };
    });
    return layoutPart({ nodes, edges }, options);
  });
  const gap = options.nodeGap * 1.5;
  const area = layouts.reduce((sum, { bounds }) => sum + (bounds.width + gap) * (bounds.height + gap), 0);
  const widest = layouts.reduce((most, { bounds }) => Math.max(most, bounds.width), 0);
  const shelf = Math.min(Math.max(widest, Math.sqrt(area) * 1.5), Math.max(widest, options.wrapWidth));
  let [left, top, deep, right] = [0, 0, 0, 0];
  layouts.forEach((layout, p) => {
    const { bounds } = layout;
    if (left > 0 && left + bounds.width > shelf) {
      top += deep + gap;
      left = deep = 0;
    }
    const [dx, dy] = [left - bounds.x, top - bounds.y];
    parts[p]!.nodes.forEach((v, i) => {
      x[v] = layout.x[i]! + dx;
      y[v] = layout.y[i]! + dy;
      rank[v] = layout.rank[i]!;
    });
    parts[p]!.edges.forEach((e, i) => (routes[e] = movedRoute(layout.routes[i]!, dx, dy)));
    left += bounds.width + gap;
    right = Math.max(right, left - gap);
    deep = Math.max(deep, bounds.height);
  });
  return { x, y, rank, routes, bounds: { x: 0, y: 0, width: right, height: top + deep } };
}

export function movedRoute(route: Route, dx: number, dy: number): Route {
  const out = new Float64Array(route.length);
  for (let i = 0; i < route.length; i += 2) {
    out[i] = route[i]! + dx;
    out[i + 1] = route[i + 1]! + dy;
  }
  return out;
}

// -- one part

/** More pieces of long edges than this in all, and the longest edges go around the picture instead. */
const CUTS_PER_NODE = 6;
const CUTS = 20_000;

function layoutPart(graph: LayoutGraph, options: LayoutOptions): Layout {
  const count = graph.nodes.length;
  const given = wires(
    count,
    Int32Array.from(graph.edges, ({ from, to }) => (from === to ? -1 : from)),
    Int32Array.from(graph.edges, ({ from, to }) => (from === to ? -1 : to)),
  );
  const back = backEdges(given);
  const turned = back.includes(1)
    ? wires(
        count,
        given.from.map((v, e) => (back[e] ? given.to[e]! : v)),
        given.to.map((v, e) => (back[e] ? given.from[e]! : v)),
      )
    : given;
  const { rank, ranks, depth } = assignRanks(turned, graph.nodes);
  const around = tooLong(turned, rank, count);
  const proper = properOf(graph, turned, back, around, rank, ranks, options.edgeGap);
  orderRows(proper);
  const placing = (rowOf: Int32Array | null) => {
    const place = placeRows(proper, depth, options, rowOf);
    const ports = spreadPorts(proper, place, graph.nodes, graph.edges, back, options.portGap);
    return { place, ports, columns: columnsOf(graph, proper, place, ports, options), wrap: null };
  };
  const whole = placing(null);
  const { rows } = options;
  const rowOf = rows === null || around.includes(1) ? null : rows.breakRows(proper, whole.columns, options);
  const inRows = rowOf && placing(rowOf);
  const wrap = inRows && rows && rows.wrapRows(proper, inRows.place, inRows.columns, rowOf, options);
  const draft: Draft = { graph, wires: turned, back, around, proper, options, ...(wrap ? { ...inRows, wrap } : whole) };
  const { place, columns } = draft;
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  for (let v = 0; v < count; v++) {
    const row = wrap ? wrap.rows[wrap.rowOf[rank[v]!]!]! : null;
    x[v] = columns.middle[v]! + (row ? row.dx : 0);
    y[v] = place[v]! + (row ? row.dy : 0);
  }
  const routes = routesOf(draft);
  return { x, y, rank, routes, bounds: boundsOf(graph, x, y, routes) };
}

/** Marks the longest edges, so many that the pieces of the others stay within bounds. */
function tooLong(graph: Wires, rank: Int32Array, count: number): Uint8Array {
  const skip = new Uint8Array(graph.from.length);
  const limit = CUTS + CUTS_PER_NODE * count;
  const lengths: number[] = [];
  let total = 0;
  for (let e = 0; e < skip.length; e++) {
    if (graph.from[e]! < 0) continue;
    const cuts = rank[graph.to[e]!]! - rank[graph.from[e]!]! - 1;
    lengths[cuts] = (lengths[cuts] ?? 0) + 1;
    total += cuts;
  }
  if (total <= limit) return skip;
  let longest = lengths.length - 1;
  for (; total > limit; longest--) total -= longest * (lengths[longest] ?? 0);
  for (let e = 0; e < skip.length; e++) {
    if (graph.from[e]! >= 0 && rank[graph.to[e]!]! - rank[graph.from[e]!]! - 1 > longest) skip[e] = 1;
  }
  return skip;
}

/** Where each rank stands along the page. */
export interface Columns {
  readonly left: Float64Array;
  readonly width: Float64Array;
  /** Room after each rank. */
  readonly gap: Float64Array;
  /** Middle of each node. */
  readonly middle: Float64Array;
}

/**
 * Columns as wide as their widest node; the room between grows with the height that lines climb in it.
 * Nodes stand in the middle, but in a column that is much wider, leaves stand next to where they are used.
 */
function columnsOf(graph: LayoutGraph, proper: Proper, place: Float64Array, ports: Ports, options: LayoutOptions): Columns {
  const { ranks, rank, real } = proper;
  const width = new Float64Array(ranks);
  const pinned = new Uint8Array(ranks);
  for (let v = 0; v < real; v++) {
    width[rank[v]!] = Math.max(width[rank[v]!]!, graph.nodes[v]!.width);
    if (graph.nodes[v]!.pin) pinned[rank[v]!] = 1;
  }
  const climb = new Float64Array(ranks);
  for (let link = 0; link < proper.tail.length; link++) {
    const u = proper.tail[link]!;
    const v = proper.head[link]!;
    const up = Math.abs(place[u]! + ports.tail[link]! - place[v]! - ports.head[link]!);
    climb[rank[u]!] = Math.max(climb[rank[u]!]!, up);
  }
  const left = new Float64Array(ranks);
  const gap = new Float64Array(ranks);
  for (let r = 0; r < ranks; r++) {
    const base = pinned[r] || (r + 1 < ranks && pinned[r + 1]) ? options.rankGap / 2 : options.rankGap;
    gap[r] = Math.round(base + Math.min(options.rankGap * 1.5, Math.max(0, climb[r]! - 1.4 * base) * 0.2));
    if (r + 1 < ranks) left[r + 1] = left[r]! + width[r]! + gap[r]!;
  }
  const middle = new Float64Array(real);
  for (let v = 0; v < real; v++) {
    const spare = (width[rank[v]!]! - graph.nodes[v]!.width) / 2;
    const leaf = proper.into.start[v] === proper.into.start[v + 1] && proper.out.start[v]! < proper.out.start[v + 1]!;
    middle[v] = left[rank[v]!]! + width[rank[v]!]! / 2 + (leaf && spare > options.rankGap / 2 ? spare : 0);
  }
  return { left, width, gap, middle };
}

interface Ports {
  readonly tail: Float64Array;
  readonly head: Float64Array;
}

interface Draft {
  readonly graph: LayoutGraph;
  readonly wires: Wires;
  readonly back: Uint8Array;
  readonly around: Uint8Array;
  readonly proper: Proper;
  readonly place: Float64Array;
  readonly ports: Ports;
  readonly columns: Columns;
  readonly wrap: Wrap | null;
  readonly options: LayoutOptions;
}

function routesOf(draft: Draft): Route[] {
  const { graph, around, back, proper } = draft;
  const position = new Int32Array(proper.count);
  for (const row of proper.rows) row.forEach((v, i) => (position[v] = i));
  let lane = 0;
  return graph.edges.map((edge, e) => {
    if (edge.from === edge.to) return new Float64Array(0);
    if (around[e]) return routeAround(draft, e, lane++);
    return back[e] ? routeBack(draft, e) : routeForward(draft, e, position);
  });
}

function routeForward(draft: Draft, e: number, position: Int32Array): Route {
  const { graph, proper, place, ports, columns, wrap } = draft;
  const first = proper.chain[e]!;
  const end = proper.chain[e + 1]!;
  const u = proper.tail[first]!;
  const start = graph.nodes[u]!;
  const { middle } = columns;
  const right = (r: number) => columns.left[r]! + columns.width[r]!;
  const shiftX = (r: number) => (wrap ? wrap.rows[wrap.rowOf[r]!]!.dx : 0);
  const shiftY = (r: number) => (wrap ? wrap.rows[wrap.rowOf[r]!]!.dy : 0);
  const r0 = proper.rank[u]!;
  const port = ports.tail[first]!;
  const pen = new Pen(
    middle[u]! + start.width / 2 - inset(start.outline, start.width, start.height, port) + shiftX(r0),
    place[u]! + port + shiftY(r0),
  );
  for (let link = first; link < end; link++) {
    const a = proper.tail[link]!;
    const b = proper.head[link]!;
    const r = proper.rank[a]!;
    const ya = place[a]! + ports.tail[link]!;
    const yb = place[b]! + ports.head[link]!;
    const real = b < proper.real;
    const goal = real ? graph.nodes[b]! : null;
    const entry = goal
      ? middle[b]! - goal.width / 2 + inset(goal.outline, goal.width, goal.height, ports.head[link]!)
      : columns.left[r + 1]!;
    if (wrap && wrap.rowOf[r] !== wrap.rowOf[r + 1]) {
      wrap.carriageReturn(pen, link, right(r), columns.left[r + 1]!, yb);
    } else {
      if (!(a < proper.real && clear(draft, position, a, 1, ya, yb))) pen.line(right(r) + shiftX(r), ya + shiftY(r));
      const early = real && clear(draft, position, b, -1, yb, ya);
      pen.bend((early ? entry : columns.left[r + 1]!) + shiftX(r + 1), yb + shiftY(r + 1));
    }
    pen.line((goal ? entry : right(r + 1)) + shiftX(r + 1), yb + shiftY(r + 1));
  }
  return pen.done();
}

/** Whether a curve may begin right at the side of v: nothing in its column on the way to height `to` reaches further out. */
function clear(draft: Draft, position: Int32Array, v: number, out: 1 | -1, from: number, to: number): boolean {
  const { proper, place, graph, columns, options } = draft;
  const row = proper.rows[proper.rank[v]!]!;
  // How far out, in the direction of the curve, a node's side is: curves leave to the right and arrive from the left.
  const side = (w: number) => columns.middle[w]! * out + graph.nodes[w]!.width / 2;
  const down = to > from;
  const step = down ? 1 : -1;
  for (let i = position[v]! + step; i >= 0 && i < row.length; i += step) {
    const w = row[i]!;
    const near = down ? place[w]! - proper.above[w]! : place[w]! + proper.below[w]!;
    if (down ? near - options.edgeGap > to : near + options.edgeGap < to) return true;
    if (w >= proper.real || side(w) > side(v) + 0.5) return false;
  }
  return true;
}

/** An edge against the reading direction: out on the right, around, back in a lane of its own, around, in on the left. */
function routeBack(draft: Draft, e: number): Route {
  const { graph, proper, place, ports, columns } = draft;
  const first = proper.chain[e]!;
  const end = proper.chain[e + 1]!;
  const target = proper.tail[first]!;
  const source = proper.head[end - 1]!;
  const right = (r: number) => columns.left[r]! + columns.width[r]!;
  const reach = (r: number) => Math.min(16, (columns.gap[r] ?? 48) / 3);
  const rs = proper.rank[source]!;
  const rt = proper.rank[target]!;
  const node = graph.nodes[source]!;
  const goal = graph.nodes[target]!;
  const outPort = graph.edges[e]!.fromPort ?? node.height / 4;
  const inPort = graph.edges[e]!.toPort ?? goal.height / 4;
  const edgeX = (v: number, side: number, port: number) => {
    const { width, height, outline } = graph.nodes[v]!;
    return columns.middle[v]! + side * (width / 2 - inset(outline, width, height, port));
  };
  const pen = new Pen(edgeX(source, 1, outPort), place[source]! + outPort);
  pen.line(right(rs), place[source]! + outPort);
  pen.turn(place[source]! + ports.head[end - 1]!, reach(rs));
  for (let link = end - 1; link >= first; link--) {
    const b = proper.head[link]!;
    const a = proper.tail[link]!;
    pen.line(columns.left[proper.rank[b]!]!, place[b]! + ports.head[link]!);
    pen.bend(right(proper.rank[a]!), place[a]! + ports.tail[link]!);
  }
  pen.line(columns.left[rt]!, place[target]! + ports.tail[first]!);
  pen.turn(place[target]! + inPort, -reach(rt - 1));
  return pen.line(edgeX(target, -1, inPort), place[target]! + inPort).done();
}

/** A very long edge of a very large graph: up beside its column, over the picture, and down again. */
function routeAround(draft: Draft, e: number, lane: number): Route {
  const { graph, wires: graphWires, proper, place, columns, options } = draft;
  const u = graphWires.from[e]!;
  const v = graphWires.to[e]!;
  const [ru, rv] = [proper.rank[u]!, proper.rank[v]!];
  let top = Infinity;
  for (const row of proper.rows) if (row.length > 0) top = Math.min(top, place[row[0]!]! - proper.above[row[0]!]!);
  const share = 0.25 + 0.5 * ((lane * 0.618034) % 1);
  const level = top - options.edgeGap * (lane + 2);
  const upX = columns.left[ru]! + columns.width[ru]! + columns.gap[ru]! * share;
  const downX = columns.left[rv]! - columns.gap[rv - 1]! * share;
  return new Pen(columns.middle[u]! + graph.nodes[u]!.width / 2, place[u]!)
    .detour(upX, level, (upX + downX) / 2)
    .detour(downX, place[v]!, columns.middle[v]! - graph.nodes[v]!.width / 2)
    .done();
}

function boundsOf(graph: LayoutGraph, x: Float64Array, y: Float64Array, routes: readonly Route[]): Rect {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  graph.nodes.forEach(({ width, height }, v) => {
    x0 = Math.min(x0, x[v]! - width / 2);
    x1 = Math.max(x1, x[v]! + width / 2);
    y0 = Math.min(y0, y[v]! - height / 2);
    y1 = Math.max(y1, y[v]! + height / 2);
  });
  for (const route of routes) {
    for (let i = 0; i < route.length; i += 2) {
      x0 = Math.min(x0, route[i]!);
      x1 = Math.max(x1, route[i]!);
      y0 = Math.min(y0, route[i + 1]!);
      y1 = Math.max(y1, route[i + 1]!);
    }
  }
  return x0 > x1 ? { x: 0, y: 0, width: 0, height: 0 } : { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
}
