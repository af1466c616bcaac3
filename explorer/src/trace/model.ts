/** A trace as views read it: typed arrays, adjacency both ways, and where on the clock each node is. */
import { bytesOfBase64, num, optionalNum } from "./decode";
import { NODE_KINDS, PHASES, type Details, type NodeKind, type Origin, type Phase, type Trace } from "./types";

/** Edges from one side, compressed: those of row i stand at `start[i]` to `start[i + 1]` of `edge`. */
export interface Adjacency {
  start: Int32Array;
  edge: Int32Array;
}

export interface Model {
  trace: Trace;
  nodes: number;
  edges: number;
  events: number;
  /** Ends of edges, by row. */
  src: Int32Array;
  dst: Int32Array;
  slot: Int32Array;
  /** Edges into a node, in the order of operands; edges out of it, in the order of consumers. */
  operands: Adjacency;
  consumers: Adjacency;
  /** The event at which a node's value was made, and the (last) one at which its gradient was handed on; -1 for none. */
  forwardAt: Int32Array;
  backwardAt: Int32Array;
  /** The first event of the backward pass, or `events`: the turn. */
  turn: number;
  valueCode: Uint8Array;
  gradientCode: Uint8Array;
  edgeGradientCode: Uint8Array | null;
  /** Rows of scopes inside each scope, and of nodes directly inside, ascending. */
  childScopes: number[][];
  childNodes: number[][];
}

const FORWARD = PHASES.indexOf("forward");
const BACKWARD = PHASES.indexOf("backward");

export function modelOf(trace: Trace): Model {
  const nodes = trace.nodes.op.length;
  const edges = trace.edges.src.length;
  const events = trace.events.node.length;
  const src = new Int32Array(edges);
  const dst = new Int32Array(edges);
  const slot = new Int32Array(trace.edges.slot);
  let at = 0;
  for (let e = 0; e < edges; e++) {
    at += trace.edges.dst[e] as number;
    dst[e] = at;
    src[e] = at - (trace.edges.src[e] as number);
  }
  const forwardAt = new Int32Array(nodes).fill(-1);
  const backwardAt = new Int32Array(nodes).fill(-1);
  let turn = events;
  for (let k = 0; k < events; k++) {
    const node = trace.events.node[k] as number;
    const phase = trace.events.phase[k] as number;
    if (phase === BACKWARD && k < turn) turn = k;
    if (node < 0) continue;
    if (phase === FORWARD) forwardAt[node] = k;
    if (phase === BACKWARD) backwardAt[node] = k;
  }
  const scopes = trace.scopes.parent.length;
  const childScopes: number[][] = Array.from({ length: scopes }, () => []);
  const childNodes: number[][] = Array.from({ length: scopes }, () => []);
  for (let s = 0; s < scopes; s++) {
    const parent = trace.scopes.parent[s] as number;
    if (parent >= 0) (childScopes[parent] as number[]).push(s);
  }
  for (let n = 0; n < nodes; n++) (childNodes[trace.nodes.scope[n] as number] as number[]).push(n);
  return {
    trace,
    nodes,
    edges,
    events,
    src,
    dst,
    slot,
    operands: adjacency(dst, nodes),
    consumers: adjacency(src, nodes),
    forwardAt,
    backwardAt,
    turn,
    valueCode: codes(trace.stats.value.rms, nodes),
    gradientCode: codes(trace.stats.gradient.rms, nodes),
    edgeGradientCode: trace.edges.gradient === undefined ? null : codes(trace.edges.gradient, edges),
    childScopes,
    childNodes,
  };
}

function codes(text: string, size: number): Uint8Array {
  const bytes = bytesOfBase64(text);
  return bytes.length === size ? bytes : new Uint8Array(size);
}

function adjacency(ends: Int32Array, nodes: number): Adjacency {
  const start = new Int32Array(nodes + 1);
  for (let e = 0; e < ends.length; e++) start[(ends[e] as number) + 1]!++;
  for (let i = 0; i < nodes; i++) start[i + 1] = (start[i + 1] as number) + (start[i] as number);
  const fill = start.slice(0, nodes);
  const edge = new Int32Array(ends.length);
  for (let e = 0; e < ends.length; e++) {
    const end = ends[e] as number;
    const k = fill[end] as number;
    edge[k] = e;
    fill[end] = k + 1;
  }
  return { start, edge };
}

/** Rows of edges into (or, with `model.consumers`, out of) a node. */
export function edgesAt(side: Adjacency, node: number): Int32Array {
  return side.edge.subarray(side.start[node], side.start[node + 1]);
}

export function operandsOf(model: Model, node: number): number[] {
  return Array.from(edgesAt(model.operands, node), (e) => model.src[e] as number);
}

export function consumersOf(model: Model, node: number): number[] {
  return Array.from(edgesAt(model.consumers, node), (e) => model.dst[e] as number);
}

export function text(model: Model, row: number | undefined): string {
  return row === undefined || row < 0 ? "" : (model.trace.strings[row] ?? "");
}

export function kindOf(model: Model, node: number): NodeKind {
  return NODE_KINDS[model.trace.nodes.kind[node] as number] ?? "op";
}

export function nameOf(model: Model, node: number): string {
  return text(model, model.trace.nodes.name[node]);
}

export function shapeOf(model: Model, node: number): readonly number[] {
  return model.trace.shapes[model.trace.nodes.shape[node] as number] ?? [];
}

export function dtypeOf(model: Model, node: number): string {
  return text(model, model.trace.nodes.dtype[node]);
}

/** The op's name; a leaf's kind. */
export function opOf(model: Model, node: number): string {
  const op = model.trace.nodes.op[node] as number;
  return op < 0 ? kindOf(model, node) : (model.trace.ops.name[op] ?? "");
}

export function symbolOf(model: Model, node: number): string {
  const op = model.trace.nodes.op[node] as number;
  return op < 0 ? nameOf(model, node) : (model.trace.ops.symbol[op] ?? "");
}

/** The exact number that a one-element value is; null where it is not one, or was not recorded. */
export function recordedValue(model: Model, node: number): number | null {
  return optionalNum(model.trace.stats.value.scalar[node]);
}

export function recordedGradient(model: Model, node: number): number | null {
  return optionalNum(model.trace.stats.gradient.scalar[node]);
}

/**
 * The size of a value or gradient as it may be told: a number's own, a tensor's root mean square. null where it is not known
 * exactly, as codes do not: those are for drawing.
 */
export function recordedSize(model: Model, node: number, gradient: boolean): number | null {
  const stats = model.trace.stats[gradient ? "gradient" : "value"];
  const single = optionalNum(stats.scalar[node]);
  if (single !== null) return Math.abs(single);
  const size = optionalNum(stats.size?.[node]);
  if (size !== null) return size;
  const details = stats.details[String(node)];
  return details === undefined || details.nan + details.inf > 0 || details.size === 0 ? null : Math.hypot(num(details.mean), num(details.std));
}

/** What went back along an edge: the number itself, of a tensor its root mean square; null where it is not known exactly. */
export function recordedAmount(model: Model, edge: number): number | null {
  return optionalNum(model.trace.edges.amount?.[edge]);
}

export function recordedSlope(model: Model, edge: number): number | null {
  return optionalNum(model.trace.edges.slope?.[edge]);
}

export function detailsOf(model: Model, node: number, gradient: boolean): Details | null {
  return model.trace.stats[gradient ? "gradient" : "value"].details[String(node)] ?? null;
}

export function phaseAt(model: Model, event: number): Phase {
  return PHASES[model.trace.events.phase[event] as number] ?? "forward";
}

/** Names of the scopes around a row of scopes, outermost first, without the whole run. */
export function scopePath(model: Model, scope: number): string[] {
  const names: string[] = [];
  const { parent, name } = model.trace.scopes;
  for (let s = scope; s > 0; s = parent[s] as number) names.push(text(model, name[s]));
  return names.reverse();
}

/** Whether the document is a file of weights: tensors, and nothing that is computed of them. */
export function isWeights(model: Model): boolean {
  return model.trace.meta.stored === true && model.edges === 0 && model.trace.ops.name.length === 0;
}

/** The only tab of a document that has no graph; null for those that have one. */
export function onlyTab(model: Model): "weights" | "parallel" | null {
  return isWeights(model) ? "weights" : model.trace.batching !== undefined ? "parallel" : null;
}

/** What a document said of the node that something came from; null where it came from none. */
export function originOf(model: Model, kind: "nodes" | "scopes", row: number): Origin | null {
  const { origins } = model.trace;
  return origins?.list[origins[kind][row] ?? -1] ?? null;
}

export function flopsOf(model: Model, node: number): number {
  return num(model.trace.nodes.flops[node] ?? 0);
}
