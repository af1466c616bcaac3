/** What each module comes to: operations, parameters, work, bytes kept, time, and the size of values and gradients in it. */
import { num, rmsOfCode } from "../../trace/decode";
import { recordedSize, type Model } from "../../trace/model";
import { FLAG, NODE_KINDS, PHASES } from "../../trace/types";

/** One entry for each row of scopes; everything inside is counted, however deep. */
export interface Totals {
  ops: Int32Array;
  nodes: Int32Array;
  /** Trainable numbers, and the tensors that hold them. */
  parameters: Float64Array;
  parameterTensors: Int32Array;
  flops: Float64Array;
  /** What the tape keeps of values made inside, in bytes. */
  kept: Float64Array;
  forwardMicros: Float64Array;
  backwardMicros: Float64Array;
  /** Root mean square over all finite elements; NaN where nothing was recorded. */
  valueSize: Float64Array;
  gradientSize: Float64Array;
  /** Sizes that went into these and are known for drawing only: where there are any, a sum is about right. */
  roughValues: Int32Array;
  roughGradients: Int32Array;
  /** Nodes with NaN or infinities in their value, in their gradient. */
  badValues: Int32Array;
  badGradients: Int32Array;
  gradients: Int32Array;
}

const known = new WeakMap<Model, Totals>();

export function totalsOf(model: Model): Totals {
  const before = known.get(model);
  if (before !== undefined) return before;
  const made = count(model);
  known.set(model, made);
  return made;
}

/** Code of NaN in `Stats`. */
export const NAN = 255;

export function hasNaNGradient(model: Model, node: number): boolean {
  return ((model.trace.nodes.flags[node] as number) & FLAG.nanBackward) !== 0 || model.gradientCode[node] === NAN;
}

export function hasNaNValue(model: Model, node: number): boolean {
  return ((model.trace.nodes.flags[node] as number) & FLAG.nanForward) !== 0 || model.valueCode[node] === NAN;
}

const BACKWARD = PHASES.indexOf("backward");
const PARAM = NODE_KINDS.indexOf("param");

export function elements(shape: readonly number[]): number {
  let n = 1;
  for (const d of shape) n *= d;
  return n;
}

/** Squares of the sizes that codes stand for; 0 for what is not finite. */
const SQUARES = Float64Array.from({ length: 256 }, (_, code) => {
  const rms = rmsOfCode(code);
  return rms === null || !Number.isFinite(rms) ? 0 : rms * rms;
});

function count(model: Model): Totals {
  const { trace } = model;
  const scopes = trace.scopes.parent.length;
  const floats = () => new Float64Array(scopes);
  const ints = () => new Int32Array(scopes);
  const t: Totals = {
    ops: ints(),
    nodes: ints(),
    parameters: floats(),
    parameterTensors: ints(),
    flops: floats(),
    kept: floats(),
    forwardMicros: floats(),
    backwardMicros: floats(),
    valueSize: floats(),
    gradientSize: floats(),
    roughValues: ints(),
    roughGradients: ints(),
    badValues: ints(),
    badGradients: ints(),
    gradients: ints(),
  };
  const valueSquares = floats();
  const valueCount = floats();
  const gradientSquares = floats();
  const gradientCount = floats();
  const sizes = trace.shapes.map(elements);
  const { op, scope, shape, kind, flags, flops } = trace.nodes;
  const { valueCode, gradientCode } = model;
  for (let n = 0; n < model.nodes; n++) {
    const s = scope[n] as number;
    const many = sizes[shape[n] as number] ?? 1;
    const value = valueCode[n] as number;
    const gradient = gradientCode[n] as number;
    const flag = flags[n] as number;
    const param = kind[n] === PARAM;
    t.nodes[s]!++;
    if ((op[n] as number) >= 0) t.ops[s]!++;
    if (param) {
      t.parameters[s]! += many;
      t.parameterTensors[s]!++;
    }
    t.flops[s]! += num(flops[n] ?? 0);
    // Parameters' own sizes say nothing about what flows, so values count where they are computed.
    if (value > 0 && !param) {
      const size = recordedSize(model, n, false);
      if (size === null) t.roughValues[s]!++;
      valueSquares[s]! += square(size, value) * many;
      valueCount[s]! += many;
    }
    if (gradient > 0) {
      const size = recordedSize(model, n, true);
      if (size === null) t.roughGradients[s]!++;
      t.gradients[s]!++;
      gradientSquares[s]! += square(size, gradient) * many;
      gradientCount[s]! += many;
    }
    if (value === NAN || (flag & FLAG.nanForward) !== 0) t.badValues[s]!++;
    if (gradient === NAN || (flag & FLAG.nanBackward) !== 0) t.badGradients[s]!++;
  }
  countKept(model, t);
  countTime(model, t);
  upwards(
    trace.scopes.parent,
    [t.ops, t.nodes, t.parameterTensors, t.badValues, t.badGradients, t.gradients, t.roughValues, t.roughGradients],
    [t.parameters, t.flops, t.kept, t.forwardMicros, t.backwardMicros, valueSquares, valueCount, gradientSquares, gradientCount],
  );
  for (let s = 0; s < scopes; s++) {
    t.valueSize[s] = Math.sqrt((valueSquares[s] as number) / (valueCount[s] as number));
    t.gradientSize[s] = Math.sqrt((gradientSquares[s] as number) / (gradientCount[s] as number));
  }
  return t;
}

function square(size: number | null, code: number): number {
  return size !== null && Number.isFinite(size) ? size * size : (SQUARES[code] as number);
}

function countKept(model: Model, t: Totals): void {
  const { buffers, nodes } = model.trace;
  for (let b = 0; b < buffers.bytes.length; b++) {
    const node = buffers.node[b] as number;
    if (buffers.class[b] !== 1 || node < 0) continue;
    const s = nodes.scope[node] as number;
    t.kept[s] = (t.kept[s] as number) + (buffers.bytes[b] as number);
  }
}

function countTime(model: Model, t: Totals): void {
  const { events, nodes } = model.trace;
  for (let k = 0; k < model.events; k++) {
    const node = events.node[k] as number;
    if (node < 0) continue;
    const s = nodes.scope[node] as number;
    const into = events.phase[k] === BACKWARD ? t.backwardMicros : t.forwardMicros;
    into[s] = (into[s] as number) + (events.dur[k] as number);
  }
}

/** Adds every scope to the one around it. A parent's row is before its children's. */
function upwards(parent: readonly number[], whole: readonly Int32Array[], real: readonly Float64Array[]): void {
  for (const column of whole) for (let s = parent.length - 1; s > 0; s--) column[parent[s] as number]! += column[s] as number;
  for (const column of real) for (let s = parent.length - 1; s > 0; s--) column[parent[s] as number]! += column[s] as number;
}

/** The scopes around a scope, itself first, the whole run last. */
export function lineage(model: Model, scope: number): number[] {
  const rows: number[] = [];
  for (let s = scope; s >= 0; s = model.trace.scopes.parent[s] as number) rows.push(s);
  return rows;
}

/** Whether `inner` is `outer` or somewhere in it. */
export function within(model: Model, inner: number, outer: number): boolean {
  for (let s = inner; s >= 0; s = model.trace.scopes.parent[s] as number) if (s === outer) return true;
  return false;
}

/** The shortest and longest bar for sizes that differ by orders of magnitude: 0 to 1 over the range that occurs. */
export function logScale(sizes: Iterable<number>): (size: number) => number {
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  for (const size of sizes) {
    if (!(size > 0) || !Number.isFinite(size)) continue;
    low = Math.min(low, size);
    high = Math.max(high, size);
  }
  const span = Math.log(high / low);
  return (size) => {
    if (!(size > 0)) return 0;
    if (!Number.isFinite(size)) return 1;
    // Where all are about equal every bar is long: differences below a factor of ten are not blown up.
    return Math.max(0.12, Math.min(1, 1 - Math.log(high / size) / Math.max(span, Math.LN10) * 0.88));
  };
}

const likes = new WeakMap<Model, Map<number, number>>();

/** How many other parts of the run have the same structure. */
export function othersLike(model: Model, scope: number): number {
  const { hash } = model.trace.scopes;
  let counts = likes.get(model);
  if (counts === undefined) {
    counts = new Map();
    for (const h of hash) counts.set(h, (counts.get(h) ?? 0) + 1);
    likes.set(model, counts);
  }
  return (counts.get(hash[scope] as number) ?? 1) - 1;
}
