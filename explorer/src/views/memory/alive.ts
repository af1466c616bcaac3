/** What is alive when: bytes held at each event, by class. */
import type { Model } from "../../trace/model";
import { BUFFER_CLASSES } from "../../trace/types";

/** The stack of the chart, from the ground up. */
export const BANDS = ["parameters", "kept for backward", "gradients", "work"] as const;

/** Which band a class of buffers is drawn in, by its row in BUFFER_CLASSES. */
export const BAND_OF_CLASS: readonly number[] = BUFFER_CLASSES.map((name) => {
  if (name === "param") return 0;
  if (name === "saved") return 1;
  return name === "gradient" ? 2 : 3;
});

/**
 * Held at each event: at event k all buffers count that are there while it happens, those that it makes and those
 * that it is the last to need. `atRest` is what is there before anything happened.
 */
export interface Alive {
  bands: readonly Float64Array[];
  total: Float64Array;
  atRest: number;
  peak: number;
  /** The first event at which the peak is reached; -1 where nothing happens. */
  peakAt: number;
}

const known = new WeakMap<Model, Alive>();

export function aliveOf(model: Model): Alive {
  const before = known.get(model);
  if (before !== undefined) return before;
  const made = count(model);
  known.set(model, made);
  return made;
}

/** The first and last event at which a buffer is there. */
export function lifeOf(model: Model, buffer: number): readonly [number, number] {
  const { first, last } = model.trace.buffers;
  const from = first[buffer] as number;
  const to = last[buffer] as number;
  return [Math.max(0, from), to < 0 || to < from ? model.events - 1 : Math.min(to, model.events - 1)];
}

function count(model: Model): Alive {
  const { buffers } = model.trace;
  const bands = BANDS.map(() => new Float64Array(model.events + 1));
  let atRest = 0;
  for (let b = 0; b < buffers.bytes.length; b++) {
    const bytes = buffers.bytes[b] as number;
    const band = bands[BAND_OF_CLASS[buffers.class[b] as number] ?? 3] as Float64Array;
    const [from, to] = lifeOf(model, b);
    band[from] = (band[from] as number) + bytes;
    band[to + 1] = (band[to + 1] as number) - bytes;
    if ((buffers.first[b] as number) < 0) atRest += bytes;
  }
  const total = new Float64Array(model.events);
  for (const band of bands) {
    let sum = 0;
    for (let k = 0; k < model.events; k++) {
      sum += band[k] as number;
      band[k] = sum;
      total[k] = (total[k] as number) + sum;
    }
  }
  let peakAt = -1;
  for (let k = 0; k < model.events; k++) if (peakAt < 0 || (total[k] as number) > (total[peakAt] as number)) peakAt = k;
  return { bands: bands.map((band) => band.subarray(0, model.events)), total, atRest, peak: peakAt < 0 ? atRest : (total[peakAt] as number), peakAt };
}

/** Rows of buffers that are there at an event, the largest first; before the first event those that were there already. */
export function heldAt(model: Model, event: number): number[] {
  const { buffers } = model.trace;
  const out: number[] = [];
  for (let b = 0; b < buffers.bytes.length; b++) {
    if (event < 0) {
      if ((buffers.first[b] as number) < 0) out.push(b);
      continue;
    }
    const [from, to] = lifeOf(model, b);
    if (from <= event && event <= to) out.push(b);
  }
  return out.sort((a, b) => (buffers.bytes[b] as number) - (buffers.bytes[a] as number) || a - b);
}
