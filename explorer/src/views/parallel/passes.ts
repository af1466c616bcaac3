/**
 * The life of every node by a schedule's clock: when what it waits for was there, when a worker began and ended, forward
 * and back. What the graph shows at a moment follows from these times alone.
 */
import { edgesAt, type Adjacency, type Model } from "../../trace/model";
import type { Lives } from "./lives";

/** Times of one pass by node, in microseconds; NaN where the pass does not come by. */
export interface Pass {
  ready: Float64Array;
  start: Float64Array;
  end: Float64Array;
  /** Who worked on it first; -1 where nobody had to. */
  worker: Int32Array;
}

export interface Passes {
  values: Pass;
  gradients: Pass;
  /** When work on gradients begins; infinite where it never does. */
  turn: number;
  /** How long a result is shown on its way to those who wait for it. */
  way: number;
}

export type Stage = "waits" | "ready" | "runs" | "hands on" | "done";

export interface NodeMoment {
  back: boolean;
  stage: Stage;
  /** How many of those that it waits for are not done. */
  missing: number;
  worker: number;
}

/** A result's way to its consumers is drawn as long as this share of the whole: no scheduler takes that long. */
const WAY = 0.02;

export function passesOf(model: Model, lives: Lives): Passes {
  const [values, gradients] = [emptyPass(model), emptyPass(model)];
  let turn = Number.POSITIVE_INFINITY;
  for (let row = 0; row < lives.count; row++) {
    const works = lives.works(row);
    for (const node of works.values) include(values, node, lives, row);
    for (const node of works.gradients) include(gradients, node, lives, row);
    if (works.gradients.length > 0 && works.values.length === 0) turn = Math.min(turn, lives.start[row] as number);
  }
  // What nobody worked on (a view, what the compiler left out) is there when all that it is made of is.
  for (let n = 0; n < model.nodes; n++) {
    if (!Number.isNaN(values.end[n] as number)) continue;
    settle(values, n, latest(values, model.operands, model.src, n));
  }
  for (let n = model.nodes - 1; n >= 0; n--) {
    if (!Number.isNaN(gradients.end[n] as number) || !hasGradient(model, n)) continue;
    const at = latest(gradients, model.consumers, model.dst, n);
    settle(gradients, n, at === Number.NEGATIVE_INFINITY ? (values.end[n] as number) : at);
  }
  return { values, gradients, turn, way: WAY * lives.micros };
}

function emptyPass(model: Model): Pass {
  const times = () => new Float64Array(model.nodes).fill(Number.NaN);
  return { ready: times(), start: times(), end: times(), worker: new Int32Array(model.nodes).fill(-1) };
}

function include(pass: Pass, node: number, lives: Lives, row: number): void {
  const [ready, start, end] = [lives.ready[row] as number, lives.start[row] as number, lives.end[row] as number];
  if (!((pass.start[node] as number) <= start)) {
    pass.start[node] = start;
    pass.ready[node] = ready;
    pass.worker[node] = lives.worker[row] as number;
  }
  if (!((pass.end[node] as number) >= end)) pass.end[node] = end;
}

function settle(pass: Pass, node: number, at: number): void {
  pass.ready[node] = pass.start[node] = pass.end[node] = at;
}

/** When the last of what is at the other ends of a node's edges was done; minus infinity where there is nothing. */
function latest(pass: Pass, side: Adjacency, ends: Int32Array, node: number): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let i = side.start[node] as number; i < (side.start[node + 1] as number); i++) {
    const end = pass.end[ends[side.edge[i] as number] as number] as number;
    if (end > most) most = end;
  }
  return most;
}

/** Whether the backward pass comes by a node. */
export function hasGradient(model: Model, node: number): boolean {
  return (model.backwardAt[node] as number) >= 0 || (model.gradientCode[node] as number) > 0;
}

/** What a value is made of, each once. */
export function sourcesOf(model: Model, node: number): number[] {
  return [...new Set(Array.from(edgesAt(model.operands, node), (e) => model.src[e] as number))];
}

/** Whose work a gradient is the sum of, each once. */
export function usersOf(model: Model, node: number): number[] {
  return [...new Set(Array.from(edgesAt(model.consumers, node), (e) => model.dst[e] as number))].filter((n) => hasGradient(model, n));
}

/** What a node waits for in a pass; the first gradient of all waits for the value that it is of. */
export function waitsFor(model: Model, node: number, back: boolean): { nodes: number[]; back: boolean } {
  if (!back) return { nodes: sourcesOf(model, node), back: false };
  const users = usersOf(model, node);
  return users.length === 0 ? { nodes: [node], back: false } : { nodes: users, back: true };
}

export function momentOf(model: Model, passes: Passes, node: number, now: number): NodeMoment {
  const back = now >= passes.turn && hasGradient(model, node) && (passes.values.end[node] as number) <= now;
  const pass = back ? passes.gradients : passes.values;
  const [ready, start, end] = [pass.ready[node] as number, pass.start[node] as number, pass.end[node] as number];
  const worker = pass.worker[node] as number;
  if (now >= end) return { back, stage: worker >= 0 && now < end + passes.way ? "hands on" : "done", missing: 0, worker };
  if (now >= start) return { back, stage: "runs", missing: 0, worker };
  const parents = waitsFor(model, node, back);
  const ends = (parents.back ? passes.gradients : passes.values).end;
  let missing = 0;
  for (const n of parents.nodes) if ((ends[n] as number) > now) missing++;
  // Compiled steps run one after the other: all that it is made of may be there, and it waits for its step's turn.
  return { back, stage: missing === 0 && now >= ready ? "ready" : "waits", missing, worker };
}

/** How far along the way to its consumers what a node made is, 0 to 1; -1 where it is not on the way. */
export function wayOf(passes: Passes, node: number, back: boolean, now: number): number {
  const pass = back ? passes.gradients : passes.values;
  if ((pass.worker[node] as number) < 0) return -1;
  const gone = (now - (pass.end[node] as number)) / passes.way;
  return gone >= 0 && gone < 1 ? gone : -1;
}
