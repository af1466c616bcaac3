/**
 * Paths between two nodes of the graph, and what each contributes to the derivative.
 *
 * Paths are never enumerated: they are counted and summed node by node, and the largest are found best first. The
 * search knows for every node the largest product that can still follow, so that each path that it completes is the
 * largest of those left (Hart, Nilsson and Raphael 1968, with an exact estimate).
 */
import { superscript } from "../../format";
import { dtypeOf, edgesAt, type Model } from "../../trace/model";

export interface Path {
  /** Rows of edges, from the first node to the last. */
  readonly edges: readonly number[];
  readonly product: number;
}

export interface PathSummary {
  /** A double: graphs of a few hundred nodes can have more paths than an integer holds. */
  readonly count: number;
  /** The derivative of the last node by the first; null where a slope on the way is a matrix, not a number. */
  readonly sum: number | null;
  /** The sum of the products' sizes: what rounding is measured against where large products cancel. */
  readonly size: number;
  /** How exactly the sum can be known. */
  readonly precision: number;
  /** The largest first. */
  readonly best: readonly Path[];
  /** Edges that lie on some path, and the sum of products of the paths through each. */
  readonly through: ReadonlyMap<number, number>;
}

type Slope = (edge: number) => number | null;

/**
 * Edges without a slope along which no gradient went either are on no path. Where one went, between tensors, the paths
 * are counted all the same, without products.
 */
export function pathsBetween(model: Model, slopes: Slope, from: number, to: number, most: number): PathSummary {
  const slope = asked(slopes);
  const edges = edgesBetween(model, slope, from, to);
  const complete = edges.every((edge) => slope(edge) !== null);
  const ahead = forwardSums(model, slope, edges, from);
  const behind = backwardSums(model, slope, edges, to);
  const through = new Map(
    edges.map((edge) => [
      edge,
      (ahead.sum[model.src[edge] as number] as number) * (slope(edge) ?? 0) * (behind.sum[model.dst[edge] as number] as number),
    ]),
  );
  return {
    count: from === to ? 1 : (ahead.count[to] ?? 0),
    sum: !complete ? null : from === to ? 1 : (ahead.sum[to] ?? 0),
    precision: precisionOf(model, edges),
    size: from === to ? 1 : (ahead.size[to] ?? 0),
    best: complete && from !== to ? bestFirst(model, slope, new Set(edges), behind.most, from, to, most) : [],
    through,
  };
}

/** The same slopes, each asked for once. */
function asked(slopes: Slope): Slope {
  const known: (number | null | undefined)[] = [];
  return (edge) => {
    const found = known[edge];
    return found === undefined ? (known[edge] = slopes(edge)) : found;
  };
}

/** Edges on some path, ascending by their ends. */
function edgesBetween(model: Model, slope: Slope, from: number, to: number): number[] {
  const { operands, consumers, src, dst } = model;
  const flows = (edge: number) => slope(edge) !== null || (model.edgeGradientCode?.[edge] ?? 0) !== 0;
  // Consumers have larger rows than their operands: ascending nodes are an order of evaluation.
  const reached = new Uint8Array(model.nodes);
  reached[from] = 1;
  for (let node = from; node < to; node++) {
    if (reached[node] === 0) continue;
    for (let i = consumers.start[node] as number; i < (consumers.start[node + 1] as number); i++) {
      const edge = consumers.edge[i] as number;
      if (flows(edge)) reached[dst[edge] as number] = 1;
    }
  }
  if (reached[to] === 0) return [];
  const reaching = new Uint8Array(model.nodes);
  reaching[to] = 1;
  const found: number[] = [];
  for (let node = to; node >= from; node--) {
    if (reaching[node] === 0) continue;
    for (let i = (operands.start[node + 1] as number) - 1; i >= (operands.start[node] as number); i--) {
      const edge = operands.edge[i] as number;
      if (reached[src[edge] as number] === 0 || !flows(edge)) continue;
      reaching[src[edge] as number] = 1;
      found.push(edge);
    }
  }
  return found.reverse();
}

/** By node; of what is on no path nothing is added up. */
interface Sums {
  readonly sum: Float64Array;
  readonly count: Float64Array;
  readonly size: Float64Array;
  /** The largest |product| of one path. */
  readonly most: Float64Array;
}

function sums(nodes: number, start: number): Sums {
  const column = () => {
    const made = new Float64Array(nodes);
    made[start] = 1;
    return made;
  };
  return { sum: column(), count: column(), size: column(), most: column() };
}

function add(into: Sums, at: number, before: number, by: number): void {
  const count = into.count[before] as number;
  if (count === 0) return;
  const size = sizeOf(by);
  into.sum[at] = (into.sum[at] as number) + (into.sum[before] as number) * by;
  into.count[at] = (into.count[at] as number) + count;
  into.size[at] = (into.size[at] as number) + (into.size[before] as number) * size;
  into.most[at] = Math.max(into.most[at] as number, (into.most[before] as number) * size);
}

/** NaN is larger than everything: it is what the reader looks for. */
function sizeOf(slope: number): number {
  return Number.isNaN(slope) ? Number.POSITIVE_INFINITY : Math.abs(slope);
}

function forwardSums(model: Model, slope: Slope, edges: readonly number[], from: number): Sums {
  const into = sums(model.nodes, from);
  for (const edge of edges) add(into, model.dst[edge] as number, model.src[edge] as number, slope(edge) ?? 0);
  return into;
}

function backwardSums(model: Model, slope: Slope, edges: readonly number[], to: number): Sums {
  const into = sums(model.nodes, to);
  for (let i = edges.length - 1; i >= 0; i--) {
    const edge = edges[i] as number;
    add(into, model.src[edge] as number, model.dst[edge] as number, slope(edge) ?? 0);
  }
  return into;
}

interface Partial {
  readonly node: number;
  readonly product: number;
  readonly edge: number;
  readonly before: Partial | null;
  readonly bound: number;
}

function bestFirst(
  model: Model,
  slope: Slope,
  allowed: ReadonlySet<number>,
  ahead: Float64Array,
  from: number,
  to: number,
  most: number,
): Path[] {
  const queue = new Heap<Partial>((a, b) => a.bound > b.bound);
  queue.push({ node: from, product: 1, edge: -1, before: null, bound: ahead[from] as number });
  const found: Path[] = [];
  for (let at = queue.pop(); at !== undefined && found.length < most; at = queue.pop()) {
    if (at.node === to) {
      found.push({ edges: edgesOf(at), product: at.product });
      continue;
    }
    for (const next of continuations(model, slope, allowed, ahead, at)) queue.push(next);
  }
  return found;
}

/**
 * The partial paths that are longer by one edge, the most promising last. That one has exactly the bound of what it
 * continues, rounding or not, and of equal bounds the one pushed last comes first: so each path is completed in as many
 * steps as it has edges, however many others are as large.
 */
function continuations(
  model: Model,
  slope: Slope,
  allowed: ReadonlySet<number>,
  ahead: Float64Array,
  at: Partial,
): Partial[] {
  const steps = Array.from(edgesAt(model.consumers, at.node))
    .filter((edge) => allowed.has(edge))
    .map((edge) => {
      const step = slope(edge) ?? 0;
      const promise = sizeOf(step) * (ahead[model.dst[edge] as number] as number);
      // Infinity times zero is a path that leads to NaN.
      return { edge, step, promise: sizeOf(promise) };
    })
    .sort((a, b) => a.promise - b.promise);
  return steps.map(({ edge, step, promise }, i) => {
    const bound = sizeOf(at.product) * promise;
    const product = at.product * step;
    const best = i === steps.length - 1;
    return {
      node: model.dst[edge] as number,
      product,
      edge,
      before: at,
      bound: best ? at.bound : Math.min(at.bound, sizeOf(bound)),
    };
  });
}

function edgesOf(path: Partial): number[] {
  const edges: number[] = [];
  for (let at: Partial | null = path; at !== null && at.edge >= 0; at = at.before) edges.push(at.edge);
  return edges.reverse();
}

/** A binary heap; of equals the one pushed last comes first. */
class Heap<T> {
  private readonly items: { readonly item: T; readonly turn: number }[] = [];
  private turn = 0;

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  push(item: T): void {
    const { items } = this;
    items.push({ item, turn: this.turn++ });
    for (let at = items.length - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      if (!this.precedes(at, parent)) break;
      this.swap(at, parent);
      at = parent;
    }
  }

  pop(): T | undefined {
    const { items } = this;
    const first = items[0];
    const last = items.pop();
    if (first === undefined || last === undefined) return undefined;
    if (items.length > 0) {
      items[0] = last;
      this.sink();
    }
    return first.item;
  }

  private sink(): void {
    const { items } = this;
    for (let at = 0; ;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < items.length && this.precedes(child, least)) least = child;
      }
      if (least === at) return;
      this.swap(at, least);
      at = least;
    }
  }

  private precedes(a: number, b: number): boolean {
    const [left, right] = [this.items[a], this.items[b]];
    if (left === undefined || right === undefined) return false;
    if (this.before(left.item, right.item)) return true;
    return !this.before(right.item, left.item) && left.turn > right.turn;
  }

  private swap(a: number, b: number): void {
    const kept = this.items[a] as { item: T; turn: number };
    this.items[a] = this.items[b] as { item: T; turn: number };
    this.items[b] = kept;
  }
}

/** How far apart two ways to the same number may end, relative to what was summed on the way. */
export const PRECISIONS: { readonly [dtype: string]: number } = { float64: 1e-9, float32: 1e-4 };
const COARSE = 1e-2;

/** Of the coarsest dtype among the nodes on a set of edges. */
function precisionOf(model: Model, edges: readonly number[]): number {
  let worst = 0;
  const seen = new Set<number>();
  for (const edge of edges) {
    for (const node of [model.src[edge] as number, model.dst[edge] as number]) {
      const dtype = model.trace.nodes.dtype[node] as number;
      if (seen.has(dtype)) continue;
      seen.add(dtype);
      worst = Math.max(worst, PRECISIONS[dtypeOf(model, node)] ?? COARSE);
    }
  }
  return worst;
}

/** Whether two numbers agree to `precision` when they are sums of products of `size` in all. */
export function agree(a: number, b: number, precision: number, size = 0): boolean {
  return Object.is(a, b) || Math.abs(a - b) <= precision * Math.max(size, Math.abs(a), Math.abs(b));
}

/** Numbers of paths: exact while a reader can take them in, powers of ten beyond. */
export function shownPaths(count: number): string {
  if (count < 1e9) return count.toLocaleString("en");
  const [mantissa, exponent] = count.toExponential(2).split("e+") as [string, string];
  return `${mantissa} · 10${superscript(exponent)}`;
}
