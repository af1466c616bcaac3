/**
 * What if regions of the forward pass were computed again instead of being kept (checkpointing)?
 *
 * Computed from the recorded buffers: between the last forward and the first backward event of a region, what the
 * tape keeps of values made inside is gone, except what others outside were made from; what the region was made
 * from stays for as long. At the first backward event the region is run once more, with all that its forward pass
 * needs on top of what is held then.
 */
import type { Model } from "../../trace/model";
import { BUFFER_CLASSES } from "../../trace/types";
import { totalsOf } from "../survey/totals";
import { aliveOf, lifeOf } from "./alive";

export interface WhatIf {
  /** Scopes of each region. */
  regions: readonly (readonly number[])[];
  peak: number;
  /** Held at each event. */
  line: Float64Array;
  /** Forward work that is done twice: in flops, and as a share of the recorded time. */
  flops: number;
  extra: number;
}

const SAVED = BUFFER_CLASSES.indexOf("saved");
const PARAM = BUFFER_CLASSES.indexOf("param");
const GRADIENT = BUFFER_CLASSES.indexOf("gradient");

export function whatIf(model: Model, regions: readonly (readonly number[])[]): WhatIf {
  const region = regionOfNodes(model, regions);
  const span = spansOf(model, region, regions.length);
  const needed = reach(model, region, span);
  const { buffers } = model.trace;
  const change = new Float64Array(model.events + 1);
  const again = regions.map(() => new Float64Array(0));
  for (let r = 0; r < regions.length; r++) again[r] = new Float64Array(Math.max(0, (span.end[r] as number) - (span.begin[r] as number) + 2));
  for (let b = 0; b < buffers.bytes.length; b++) {
    const cls = buffers.class[b] as number;
    const node = buffers.node[b] as number;
    if (cls === PARAM || cls === GRADIENT || node < 0) continue;
    const bytes = buffers.bytes[b] as number;
    const [from, to] = lifeOf(model, b);
    const r = region[node] as number;
    const end = r < 0 ? 0 : (span.end[r] as number);
    if (r >= 0 && from <= end) {
      // The second run needs what the first one needed, as long as it needed it.
      const sums = again[r] as Float64Array;
      const start = span.begin[r] as number;
      const at = Math.max(0, from - start);
      sums[at] = (sums[at] as number) + bytes;
      const till = Math.min(to, end) - start + 1;
      sums[till] = (sums[till] as number) - bytes;
    }
    const until = needed[node] as number;
    if (cls === SAVED && r >= 0) {
      // Gone from the region's end on, or from where the last region that is made from it has run again.
      const gone = Math.max(end, until) + 1;
      const back = Math.min(span.back[r] as number, to + 1);
      if (gone < back) shift(change, gone, back, -bytes);
    }
    if (until > to) shift(change, to + 1, until + 1, bytes);
  }
  const before = aliveOf(model).total;
  const line = new Float64Array(model.events);
  let sum = 0;
  for (let k = 0; k < model.events; k++) {
    sum += change[k] as number;
    line[k] = (before[k] as number) + sum;
  }
  for (let r = 0; r < regions.length; r++) addSecondRun(line, span.back[r] as number, again[r] as Float64Array);
  let peak = 0;
  for (const held of line) peak = Math.max(peak, held);
  return { regions, peak, line, ...workAgain(model, regions) };
}

function shift(change: Float64Array, from: number, to: number, bytes: number): void {
  change[from] = (change[from] as number) + bytes;
  change[to] = (change[to] as number) - bytes;
}

/** At the event before the region's first backward one stand what is held then and the most that the second run needs. */
function addSecondRun(line: Float64Array, back: number, sums: Float64Array): void {
  if (back <= 0 || back > line.length - 1) return;
  let held = 0;
  let most = 0;
  for (const step of sums) {
    held += step;
    most = Math.max(most, held);
  }
  line[back] = Math.max(line[back] as number, (line[back - 1] as number) + most);
}

function regionOfNodes(model: Model, regions: readonly (readonly number[])[]): Int32Array {
  const { scopes, nodes } = model.trace;
  const ofScope = new Int32Array(scopes.parent.length).fill(-1);
  regions.forEach((rows, r) => {
    for (const s of rows) ofScope[s] = r;
  });
  for (let s = 1; s < scopes.parent.length; s++) {
    if ((ofScope[s] as number) < 0) ofScope[s] = ofScope[scopes.parent[s] as number] as number;
  }
  const region = new Int32Array(model.nodes);
  for (let n = 0; n < model.nodes; n++) region[n] = ofScope[nodes.scope[n] as number] as number;
  return region;
}

interface Spans {
  /** First and last forward event, first backward event. */
  begin: Int32Array;
  end: Int32Array;
  back: Int32Array;
}

function spansOf(model: Model, region: Int32Array, count: number): Spans {
  const begin = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(-1);
  const back = new Int32Array(count).fill(model.events);
  for (let n = 0; n < model.nodes; n++) {
    const r = region[n] as number;
    if (r < 0) continue;
    const made = model.forwardAt[n] as number;
    if (made >= 0) {
      begin[r] = (begin[r] as number) < 0 ? made : Math.min(begin[r] as number, made);
      end[r] = Math.max(end[r] as number, made);
    }
    const handed = model.backwardAt[n] as number;
    if (handed >= 0) back[r] = Math.min(back[r] as number, handed);
  }
  return { begin, end, back };
}

/**
 * For each node the event up to which its value must stay whatever its own region does: a region that is made from it
 * runs again, or something outside its region keeps it for its own backward step; -1 for none.
 */
function reach(model: Model, region: Int32Array, span: Spans): Int32Array {
  const until = new Int32Array(model.nodes).fill(-1);
  for (let e = 0; e < model.edges; e++) {
    const [from, to] = [model.src[e] as number, model.dst[e] as number];
    const r = region[to] as number;
    if (r < 0 || region[from] === r || (model.trace.nodes.op[from] as number) < 0) continue;
    const back = span.back[r] as number;
    if (back < model.events) until[from] = Math.max(until[from] as number, back);
  }
  const { saved } = model.trace;
  for (let i = 0; i < saved.node.length; i++) {
    const [keeper, value] = [saved.node[i] as number, saved.value[i] as number];
    if (region[keeper] === region[value]) continue;
    until[value] = Math.max(until[value] as number, model.backwardAt[keeper] as number);
  }
  return until;
}

function workAgain(model: Model, regions: readonly (readonly number[])[]): { flops: number; extra: number } {
  const t = totalsOf(model);
  let flops = 0;
  let micros = 0;
  for (const s of regions.flat()) {
    flops += t.flops[s] as number;
    micros += t.forwardMicros[s] as number;
  }
  const all = (t.forwardMicros[0] as number) + (t.backwardMicros[0] as number);
  return { flops, extra: all > 0 ? micros / all : 0 };
}

/** A way to cut a model into regions: `size` neighbours of the same structure go together. */
export interface Cut {
  label: string;
  regions: number[][];
}

const MOST_SIZES = 6;

/** Cuts at repeated blocks: of the list of layers that keeps most, one layer to a region, two, three ... */
export function cuts(model: Model): Cut[] {
  const t = totalsOf(model);
  let best: number[] = [];
  let most = 0;
  for (const children of model.childScopes) {
    const layers = children.filter((s) => (t.kept[s] as number) > 0);
    const kept = layers.reduce((sum, s) => sum + (t.kept[s] as number), 0);
    if (kept > most && isList(model, layers)) {
      most = kept;
      best = layers;
    }
  }
  if (best.length === 0) return wholeParts(model);
  return sizes(best.length).map((size) => ({
    label: size === 1 ? `each of ${best.length}` : `every ${size} of ${best.length}`,
    regions: chunks(best, size),
  }));
}

/** Most of them are alike: a layer among them may differ and is a layer all the same. */
function isList(model: Model, layers: readonly number[]): boolean {
  const alike = new Map<number, number>();
  for (const s of layers) {
    const hash = model.trace.scopes.hash[s] as number;
    alike.set(hash, (alike.get(hash) ?? 0) + 1);
  }
  const largest = Math.max(0, ...alike.values());
  return largest > 1 && 2 * largest >= layers.length;
}

/** Where nothing repeats, the parts of the run themselves. */
function wholeParts(model: Model): Cut[] {
  const t = totalsOf(model);
  let scope = 0;
  while (model.childScopes[scope]?.length === 1) scope = (model.childScopes[scope] as number[])[0] as number;
  const parts = (model.childScopes[scope] as number[]).filter((s) => (t.kept[s] as number) > 0);
  return parts.length < 2 ? [] : [{ label: `each of ${parts.length} parts`, regions: parts.map((s) => [s]) }];
}

/** 1, 2, 3, 4 ... up to the count, at most a few, among them those around the square root. */
function sizes(count: number): number[] {
  const root = Math.max(1, Math.round(Math.sqrt(count)));
  const wanted = new Set([1, 2, root - 1, root, root + 1, Math.ceil(count / 2)]);
  return [...wanted].filter((s) => s >= 1 && s < count).sort((a, b) => a - b).slice(0, MOST_SIZES);
}

function chunks(rows: readonly number[], size: number): number[][] {
  const out: number[][] = [];
  for (let i = 0; i < rows.length; i += size) out.push(rows.slice(i, i + size));
  return out;
}

/** The cut with the lowest peak; null where nothing can be cut or nothing is gained. */
export function bestWhatIf(model: Model): { cut: Cut; result: WhatIf } | null {
  let best: { cut: Cut; result: WhatIf } | null = null;
  for (const cut of cuts(model)) {
    const result = whatIf(model, cut.regions);
    if (result.peak < (best?.result.peak ?? aliveOf(model).peak)) best = { cut, result };
  }
  return best;
}
