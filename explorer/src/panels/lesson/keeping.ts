/** How much the tape keeps for the backward pass after each event: the chart that is the scrubber. */
import { dtypeOf, shapeOf, type Model } from "../../trace/model";

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

/** A value is held from the first node that keeps it to the last that has read it; once, however many keep it. */
export function keepingOf(model: Model): Keeping {
  const { node: keepers, value: kept } = model.trace.saved;
  const from = new Map<number, number>();
  const until = new Map<number, number>();
  keepers.forEach((keeper, i) => {
    const value = kept[i] as number;
    const begin = Math.max(0, model.forwardAt[keeper] as number) + 1;
    const end = model.backwardAt[keeper] as number;
    from.set(value, Math.min(from.get(value) ?? begin, begin));
    // What the backward pass never comes to stays.
    until.set(value, Math.max(until.get(value) ?? 0, end < 0 ? model.events : end));
  });
  const single = [...from.keys()].every((value) => sizeOf(model, value) === 1);
  // Where each amount begins and ends; summed up they are what is held.
  const change = new Float64Array(model.events + 2);
  for (const [value, begin] of from) {
    const amount = single ? 1 : sizeOf(model, value) * itemBytes(dtypeOf(model, value));
    const end = (until.get(value) as number) + 1;
    if (end <= begin) continue;
    change[begin] = (change[begin] as number) + amount;
    change[end] = (change[end] as number) - amount;
  }
  let sum = 0;
  const held = change.subarray(0, model.events + 1).map((by) => (sum += by));
  return { unit: single ? "values" : "bytes", held, peak: held.reduce((a, b) => Math.max(a, b), 0) };
}
