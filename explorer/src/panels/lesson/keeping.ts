/** How much the tape keeps for the backward pass after each event: the chart that is the scrubber. */
import { dtypeOf, shapeOf, type Model } from "../../trace/model";
import { PHASES } from "../../trace/types";

export interface Keeping {
  /** "values" where all are single numbers, else "bytes". */
  readonly unit: "values" | "bytes";
  /** After the first k events, for k = 0 ... events. */
  readonly held: Float64Array;
  readonly peak: number;
}

const WIDTHS: { readonly [dtype: string]: number } = { bool: 1, bfloat16: 2 };

export function itemBytes(dtype: string): number {
  const bits = /(\d+)$/.exec(dtype)?.[1];
  return WIDTHS[dtype] ?? (bits === undefined ? 8 : Number(bits) / 8);
}

export function sizeOf(model: Model, node: number): number {
  return shapeOf(model, node).reduce((n, side) => n * side, 1);
}

/**
 * A value is held from the first node that keeps it to the last that has read it; once, however many keep it. What a
 * checkpoint computes again is held from then; but what came from outside it, from the start.
 */
export function keepingOf(model: Model): Keeping {
  const { node: keepers, value: kept } = model.trace.saved;
  const again = recomputedAt(model);
  const lives = new Map<number, [number, number][]>();
  keepers.forEach((keeper, i) => {
    const value = kept[i] as number;
    const recomputed = again[keeper] as number;
    const inside = recomputed >= 0 && (again[value] as number) >= 0 && (again[value] as number) <= recomputed;
    const from = inside ? recomputed : Math.max(0, model.forwardAt[keeper] as number);
    const end = model.backwardAt[keeper] as number;
    // What the backward pass never comes to stays.
    const life: [number, number] = [from + 1, end < 0 ? model.events : end];
    const others = lives.get(value);
    if (others === undefined) lives.set(value, [life]);
    else others.push(life);
  });
  const single = [...lives.keys()].every((value) => sizeOf(model, value) === 1);
  // Where each amount begins and ends; summed up they are what is held.
  const change = new Float64Array(model.events + 2);
  for (const [value, spans] of lives) {
    const amount = single ? 1 : sizeOf(model, value) * itemBytes(dtypeOf(model, value));
    for (const [begin, end] of united(spans)) {
      change[begin] = (change[begin] as number) + amount;
      change[end + 1] = (change[end + 1] as number) - amount;
    }
  }
  let sum = 0;
  const held = change.subarray(0, model.events + 1).map((by) => (sum += by));
  return { unit: single ? "values" : "bytes", held, peak: held.reduce((a, b) => Math.max(a, b), 0) };
}

const RECOMPUTE = PHASES.indexOf("recompute");

/** The event at which a node was computed again, or -1. */
function recomputedAt(model: Model): Int32Array {
  const { node, phase } = model.trace.events;
  const at = new Int32Array(model.nodes).fill(-1);
  for (let k = 0; k < model.events; k++) {
    if (phase[k] === RECOMPUTE && (node[k] as number) >= 0) at[node[k] as number] = k;
  }
  return at;
}

/** Spans, those that meet made one; without those that are empty. */
function united(spans: readonly (readonly [number, number])[]): [number, number][] {
  const out: [number, number][] = [];
  for (const [begin, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = out[out.length - 1];
    if (end < begin) continue;
    if (last !== undefined && begin <= last[1] + 1) last[1] = Math.max(last[1], end);
    else out.push([begin, end]);
  }
  return out;
}
