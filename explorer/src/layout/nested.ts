/**
 * Layout of a graph with open containers: each container's contents on their own, from the inside out.
 *
 * A value that enters or leaves a container does so at a port: one port per value, whatever is open
 * around the container. So what a container looks like inside depends on its own contents only, and
 * opening another one leaves it as it is; equal contents are laid out once.
 */
import type { Item, VisibleEdge, VisibleGraph } from "../fold/visible";
import type { busOf } from "./bus";
import { layered, movedRoute } from "./layered";
import type { Layout, LayoutEdge, LayoutNode, LayoutOptions, Outline, Rect, Route } from "./types";

export interface BoxSize {
  readonly width: number;
  readonly height: number;
  readonly outline?: Outline;
  readonly below?: number;
}

export interface NestedOptions extends Partial<LayoutOptions> {
  /** Size of a box; for an open container the least size that its header asks for. */
  readonly size: (item: Item) => BoxSize;
  /** Finds the bus that runs through sums, and says whether an item is one; none is where this is left out. */
  readonly bus?: { readonly find: typeof busOf; readonly isSum: (item: Item) => boolean };
  /** Keeps a port of the picture at its left or right border. */
  readonly pin?: (item: Item) => "first" | "last" | undefined;
  /** Room inside a container's frame, and above its contents. */
  readonly padding: number;
  readonly header: number;
}

/** A piece of an edge between two boxes, or between a box and a port of a container. */
export interface Segment {
  readonly route: Route;
  /** Items at its ends; -1 where it goes on at a port. */
  readonly from: number;
  readonly to: number;
  /** Rows of the visible graph's edges that run along it. */
  readonly edges: readonly number[];
}

export interface NestedLayout {
  /** Frames, one per item. */
  readonly boxes: readonly Rect[];
  readonly segments: readonly Segment[];
  readonly bounds: Rect;
}

/** Layouts by what was laid out. Share one between calls, and only what changed is done again. */
export type LayoutCache = Map<string, Layout>;

/** More values than this into or out of a container share ports with those that come from, or go to, the same part. */
const MOST_PORTS = 8;
const CACHE_SIZE = 400;
/** So much of a row an open container may take, what leads into it and out of it stands beside it; and so much of that one inside it. */
const [SHARE, INNER_SHARE] = [0.8, 0.92];

interface Wire {
  readonly from: End;
  readonly to: End;
  readonly edges: number[];
}

/** One end of a wire at some level: a child of the level's container, at a port if it is a container itself; or a port of the level's own container. */
interface End {
  readonly item: number;
  readonly port: number;
}

interface Level {
  /** Rows of its items. */
  readonly children: number[];
  /** Keys of the container's ports, in the order of their first use. */
  readonly inPorts: Map<string, number>;
  readonly outPorts: Map<string, number>;
  readonly wires: Map<string, Wire>;
}

const OWN = -1;

export function nested(graph: VisibleGraph, scopeOf: ArrayLike<number>, parentScope: ArrayLike<number>, options: NestedOptions, cache: LayoutCache = new Map()): NestedLayout {
  const levels = levelsOf(graph, scopeOf, parentScope);
  const placed: Placed[] = new Array<Placed>(levels.length);
  // Level 0 is the whole picture, level i + 1 the inside of item i; contents come after their containers.
  for (let i = levels.length - 1; i >= 0; i--) {
    if (i > 0 && !graph.items[i - 1]!.open) continue;
    placed[i] = placeLevel(levels[i]!, i - 1, graph, placed, options, cache);
  }
  return assemble(graph, levels, placed);
}

// -- levels

function levelsOf(graph: VisibleGraph, scopeOf: ArrayLike<number>, parentScope: ArrayLike<number>): Level[] {
  const { items, edges } = graph;
  const levels: Level[] = Array.from({ length: items.length + 1 }, () => ({
    children: [],
    inPorts: new Map<string, number>(),
    outPorts: new Map<string, number>(),
    wires: new Map<string, Wire>(),
  }));
  items.forEach((item, i) => levels[item.parent + 1]!.children.push(i));
  const crossings = edges.map((edge) => crossingOf(graph, edge));
  const names = new PortNames(graph, crossings, scopeOf, parentScope);
  // Ports on the way out stand in the order of what is inside, whoever asks for them outside.
  const leaving = crossings.flatMap(({ edge, out }) => Array.from(edge.values, (value) => ({ from: edge.from, value, out })));
  leaving.sort((a, b) => a.from - b.from || a.value - b.value);
  for (const { value, out } of leaving) {
    for (const container of out) portOf(levels[container + 1]!.outPorts, names.leaving(container, value));
  }
  // Strands are the values of edges, one by one: by consumer and operand, so that it does not matter which
  // of them share an edge because the box that they come from is closed.
  const strands = crossings.flatMap((crossing, e) =>
    crossing.out.length + crossing.into.length === 0
      ? [{ ...crossing, e, value: -1, row: crossing.edge.rows[0]! }]
      : Array.from(crossing.edge.values, (value, k) => ({ ...crossing, e, value, row: crossing.edge.firstRows[k]! })),
  );
  strands.sort((a, b) => a.edge.to - b.edge.to || a.row - b.row);
  for (const { edge, out, into, e, value } of strands) {
    let end: End = { item: edge.from, port: OWN };
    for (const container of out) {
      const port = portOf(levels[container + 1]!.outPorts, names.leaving(container, value));
      connect(levels[container + 1]!, end, { item: OWN, port }, e);
      end = { item: container, port };
    }
    for (const container of into) {
      const port = portOf(levels[container + 1]!.inPorts, names.entering(container, value));
      connect(levels[items[container]!.parent + 1]!, end, { item: container, port }, e);
      end = { item: OWN, port };
    }
    connect(levels[items[edge.to]!.parent + 1]!, end, { item: edge.to, port: OWN }, e);
  }
  return levels;
}

/** The containers that an edge leaves, from the inside out, and those that it enters, from the outside in. */
interface Crossing {
  readonly edge: VisibleEdge;
  readonly out: readonly number[];
  readonly into: readonly number[];
}

function crossingOf(graph: VisibleGraph, edge: VisibleEdge): Crossing {
  const around = (item: number): number[] => {
    const chain: number[] = [];
    for (let i = graph.items[item]!.parent; i >= 0; i = graph.items[i]!.parent) chain.push(i);
    return chain;
  };
  const out = around(edge.from);
  const into = around(edge.to);
  while (out.length > 0 && into.length > 0 && out.at(-1) === into.at(-1)) {
    out.pop();
    into.pop();
  }
  return { edge, out, into: into.reverse() };
}

function portOf(ports: Map<string, number>, key: string): number {
  let port = ports.get(key);
  if (port === undefined) ports.set(key, (port = ports.size));
  return port;
}

function connect(level: Level, from: End, to: End, edge: number): void {
  const key = `${from.item}:${from.port}>${to.item}:${to.port}`;
  const wire = level.wires.get(key);
  if (!wire) level.wires.set(key, { from, to, edges: [edge] });
  else if (!wire.edges.includes(edge)) wire.edges.push(edge);
}

/** Which values share a port. Only the recorded scopes decide, never what else is open. */
class PortNames {
  private readonly scopeOf: ArrayLike<number>;
  private readonly parentScope: ArrayLike<number>;
  private readonly graph: VisibleGraph;
  private readonly enter: Set<number>[];
  private readonly leave: Set<number>[];

  constructor(graph: VisibleGraph, crossings: readonly Crossing[], scopeOf: ArrayLike<number>, parentScope: ArrayLike<number>) {
    this.graph = graph;
    this.scopeOf = scopeOf;
    this.parentScope = parentScope;
    this.enter = graph.items.map(() => new Set());
    this.leave = graph.items.map(() => new Set());
    for (const { edge, out, into } of crossings) {
      for (const value of edge.values) {
        for (const container of out) this.leave[container]!.add(value);
        for (const container of into) this.enter[container]!.add(value);
      }
    }
  }

  entering(container: number, value: number): string {
    return this.enter[container]!.size <= MOST_PORTS ? `v${value}` : this.part(container, value);
  }

  leaving(container: number, value: number): string {
    return this.leave[container]!.size <= MOST_PORTS ? `v${value}` : this.part(container, value);
  }

  /** The outermost scope around the value that does not hold the container's scope as well, nor is it. */
  private part(container: number, value: number): string {
    const holds = new Set<number>();
    for (let s = this.graph.items[container]!.scope; s >= 0; s = this.parentScope[s]!) holds.add(s);
    let part = -1;
    for (let s = this.scopeOf[value]!; s >= 0 && !holds.has(s); s = this.parentScope[s]!) part = s;
    return part < 0 ? "own" : `s${part}`;
  }
}

// -- one level

interface Placed {
  readonly layout: Layout;
  readonly nodes: readonly LayoutNode[];
  /** The container's frame in the layout's coordinates, and its ports, measured down from the frame's middle. */
  readonly frame: Rect;
  readonly inAt: readonly number[];
  readonly outAt: readonly number[];
  /** Wires in the order of the layout's edges. */
  readonly wires: readonly Wire[];
}

function placeLevel(level: Level, container: number, graph: VisibleGraph, placed: readonly Placed[], options: NestedOptions, cache: LayoutCache): Placed {
  const { items } = graph;
  const nodes: LayoutNode[] = [];
  const index = new Map<number, number>();
  const ins = level.inPorts.size;
  const outs = level.outPorts.size;
  for (let p = 0; p < ins; p++) nodes.push({ width: 0, height: 0, pin: "first" });
  for (const child of level.children) {
    const { width, height, ...rest }: BoxSize = items[child]!.open ? placed[child + 1]!.frame : options.size(items[child]!);
    const pin = container < 0 ? options.pin?.(items[child]!) : undefined;
    const size = items[child]!.open ? { width, height } : { width, height, ...rest };
    index.set(child, nodes.push(pin === undefined ? size : { ...size, pin }) - 1);
  }
  for (let p = 0; p < outs; p++) nodes.push({ width: 0, height: 0, pin: "last" });
  const wires = [...level.wires.values()].sort(byEnd);
  const edges = wires.map(({ from, to }): LayoutEdge => {
    const edge: { from: number; to: number; fromPort?: number; toPort?: number } = {
      from: from.item === OWN ? from.port : index.get(from.item)!,
      to: to.item === OWN ? nodes.length - outs + to.port : index.get(to.item)!,
    };
    if (from.item !== OWN && from.port !== OWN) edge.fromPort = placed[from.item + 1]!.outAt[from.port]!;
    if (to.item !== OWN && to.port !== OWN) edge.toPort = placed[to.item + 1]!.inAt[to.port]!;
    return edge;
  });
  const { bus } = options;
  if (bus !== undefined) {
    const first = ins;
    const sum = (v: number) => v >= first && v < first + level.children.length && bus.isSum(items[level.children[v - first]!]!);
    for (const e of bus.find(nodes.length, edges, sum)) edges[e] = { ...edges[e]!, bus: true };
  }
  const layout = remembered(nodes, edges, narrowed(options, graph, container), cache);
  const frame = container < 0 ? layout.bounds : frameOf(layout, ins, outs, options.size(items[container]!), options);
  const middle = frame.y + frame.height / 2;
  const at = (from: number, count: number) => Array.from({ length: count }, (_, p) => layout.y[from + p]! - middle);
  return { layout, nodes, frame, inAt: at(0, ins), outAt: at(nodes.length - outs, outs), wires };
}

/** Inside containers there is less room: their frames take some, and what stands beside them. */
function narrowed(options: NestedOptions, graph: VisibleGraph, container: number): NestedOptions {
  const { wrapWidth, wrapStrictly, padding, rankGap = 0 } = options;
  if (wrapWidth === undefined || !wrapStrictly) return options;
  let depth = 0;
  for (let i = container; i >= 0; i = graph.items[i]!.parent) depth++;
  let room = wrapWidth;
  for (let d = 0; d < depth; d++) room = (room - 2 * padding) * (d === 0 ? SHARE : INNER_SHARE);
  const most = wrapWidth - 2 * padding * depth;
  return { ...options, wrapWidth: Math.max(4 * rankGap, Math.min(most, 10 * rankGap), room) };
}

/** By the end that a wire leads to; operands of one box keep their order, sources of one port go by theirs. */
function byEnd(a: Wire, b: Wire): number {
  if (a.to.item !== b.to.item) return (a.to.item === OWN ? Infinity : a.to.item) < (b.to.item === OWN ? Infinity : b.to.item) ? -1 : 1;
  if (a.to.port !== b.to.port) return a.to.port - b.to.port;
  return a.to.port === OWN ? 0 : a.from.item - b.from.item || a.from.port - b.from.port;
}

function frameOf(layout: Layout, ins: number, outs: number, least: BoxSize, options: NestedOptions): Rect {
  const { bounds, x } = layout;
  // Ports stand on the frame, unless lines that go on in a new row pass outside of them.
  const onLeft = ins > 0 && x[0]! <= bounds.x + 0.5;
  const onRight = outs > 0 && x.at(-1)! >= bounds.x + bounds.width - 0.5;
  const left = bounds.x - (onLeft ? 0 : options.padding);
  const right = bounds.x + bounds.width + (onRight ? 0 : options.padding);
  const width = Math.max(right - left, least.width);
  const height = Math.max(bounds.height + 2 * options.padding + options.header, least.height);
  return { x: left, y: bounds.y - options.padding - options.header, width, height };
}

function remembered(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[], options: NestedOptions, cache: LayoutCache): Layout {
  const { rankGap, nodeGap, edgeGap, portGap, wrapWidth, wrapStrictly } = options;
  const key = [
    [rankGap, nodeGap, edgeGap, portGap, wrapWidth, wrapStrictly].join(),
    nodes.map((n) => `${n.width}x${n.height}${n.outline?.[0] ?? ""}${n.pin?.[0] ?? ""}${n.below ?? ""}`).join(),
    edges.map((e) => `${e.from}>${e.to}${e.fromPort ?? ""}/${e.toPort ?? ""}${e.bus ? "b" : ""}`).join(),
  ].join(";");
  const found = cache.get(key);
  if (found) {
    // Moved to the end: the least recently used is forgotten first.
    cache.delete(key);
    cache.set(key, found);
    return found;
  }
  const layout = layered({ nodes, edges }, options);
  cache.set(key, layout);
  if (cache.size > CACHE_SIZE) cache.delete(cache.keys().next().value!);
  return layout;
}

// -- the whole

function assemble(graph: VisibleGraph, levels: readonly Level[], placed: readonly Placed[]): NestedLayout {
  const boxes: Rect[] = new Array<Rect>(graph.items.length);
  const segments: Segment[] = [];
  levels.forEach((level, l) => {
    const here = placed[l];
    if (!here) return;
    const outer = l === 0 ? here.frame : boxes[l - 1]!;
    const dx = outer.x - here.frame.x;
    const dy = outer.y - here.frame.y;
    const ins = level.inPorts.size;
    level.children.forEach((child, i) => {
      const { x, y } = here.layout;
      const { width, height } = here.nodes[ins + i]!;
      boxes[child] = { x: x[ins + i]! + dx - width / 2, y: y[ins + i]! + dy - height / 2, width, height };
    });
    here.wires.forEach((wire, w) => {
      const route = movedRoute(here.layout.routes[w]!, dx, dy);
      if (route.length === 0) return;
      segments.push({
        route: l === 0 ? route : toFrame(route, wire, outer),
        from: wire.from.port === OWN ? wire.from.item : -1,
        to: wire.to.port === OWN ? wire.to.item : -1,
        edges: wire.edges,
      });
    });
  });
  return { boxes, segments, bounds: placed[0]!.frame };
}

/** Ports stand at the contents' edge; lines go on to the frame. */
function toFrame(route: Route, wire: Wire, frame: Rect): Route {
  const out = Array.from(route);
  const line = (x0: number, y: number, x1: number) => [x0 + (x1 - x0) / 3, y, x0 + (2 * (x1 - x0)) / 3, y, x1, y];
  const right = frame.x + frame.width;
  if (wire.to.item === OWN && out.at(-2)! < right - 0.5) out.push(...line(out.at(-2)!, out.at(-1)!, right));
  if (wire.from.item === OWN && out[0]! > frame.x + 0.5) {
    const [x, y] = [out[0]!, out[1]!];
    out.splice(0, 2, frame.x, y, ...line(frame.x, y, x));
  }
  return Float64Array.from(out);
}
