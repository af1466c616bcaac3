/**
 * Where events stand on the clock's axis: by time where it was measured, else by number. Everything in 0 to 1.
 *
 * Stretches in which no thread did anything (the program between forward and backward, say) would push the work
 * itself together: longer ones are drawn shortened, with a mark.
 */
import type { Model } from "../../trace/model";

export interface Timeline {
  /** Beginning and end of each event. */
  from: Float64Array;
  to: Float64Array;
  /** Where the cursor stands when k events have happened: never further left than for k - 1. */
  mark: Float64Array;
  threads: readonly number[];
  /** Row of each event's thread in `threads`. */
  lane: Int32Array;
  /** Microseconds from the first beginning to the last end; 0 where time was not measured. */
  micros: number;
  /** Middles of the stretches that are drawn shortened, with their true length. */
  breaks: readonly { x: number; micros: number }[];
}

const known = new WeakMap<Model, Timeline>();

export function timelineOf(model: Model): Timeline {
  const before = known.get(model);
  if (before !== undefined) return before;
  const made = build(model);
  known.set(model, made);
  return made;
}

/** Idle stretches longer than this share of the busy time are drawn as long as this. */
const IDLE = 0.03;
/** Busy and idle are told apart this finely. */
const SLICES = 1 << 14;

function build(model: Model): Timeline {
  const { thread } = model.trace.events;
  const t0 = new Float64Array(model.trace.events.t0);
  const dur = new Float64Array(model.trace.events.dur);
  const count = model.events;
  const rowOf = new Map<number, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = Number.NEGATIVE_INFINITY;
  for (let k = 0; k < count; k++) {
    begin = Math.min(begin, t0[k] as number);
    end = Math.max(end, (t0[k] as number) + (dur[k] as number));
    rowOf.set(thread[k] as number, 0);
  }
  const threads = [...rowOf.keys()].sort((a, b) => a - b);
  threads.forEach((id, row) => rowOf.set(id, row));
  const timed = count > 0 && end > begin;
  const { removed, breaks, span } = timed ? shortened(t0, dur, begin, end) : { removed: new Float64Array(1), breaks: [], span: 1 };
  const slice = (end - begin) / SLICES;
  const from = new Float64Array(count);
  const to = new Float64Array(count);
  const mark = new Float64Array(count + 1);
  const lane = new Int32Array(count);
  for (let k = 0; k < count; k++) {
    const since = (t0[k] as number) - begin;
    const at = timed ? since - (removed[Math.min(SLICES - 1, Math.floor(since / slice))] as number) : 0;
    from[k] = timed ? at / span : k / count;
    to[k] = timed ? (at + (dur[k] as number)) / span : (k + 1) / count;
    mark[k + 1] = Math.max(mark[k] as number, to[k] as number);
    lane[k] = rowOf.get(thread[k] as number) as number;
  }
  return { from, to, mark, threads, lane, micros: timed ? end - begin : 0, breaks };
}

/** For each slice of time how much was taken out before it, where, and what length is left. */
function shortened(t0: Float64Array, dur: Float64Array, begin: number, end: number) {
  const slice = (end - begin) / SLICES;
  const busy = new Uint8Array(SLICES);
  for (let k = 0; k < t0.length; k++) {
    const since = (t0[k] as number) - begin;
    const last = Math.min(SLICES - 1, Math.floor((since + (dur[k] as number)) / slice));
    for (let i = Math.min(SLICES - 1, Math.floor(since / slice)); i <= last; i++) busy[i] = 1;
  }
  const longest = IDLE * busy.reduce((sum, b) => sum + b, 0);
  const removed = new Float64Array(SLICES);
  const breaks: { at: number; micros: number }[] = [];
  let idle = 0;
  let out = 0;
  for (let i = 0; i < SLICES; i++) {
    if (busy[i] === 0) {
      idle++;
    } else {
      if (idle > longest) {
        out += (idle - longest) * slice;
        breaks.push({ at: (i - longest / 2) * slice - out, micros: idle * slice });
      }
      idle = 0;
    }
    removed[i] = out;
  }
  const span = end - begin - out;
  return { removed, span, breaks: breaks.map(({ at, micros }) => ({ x: at / span, micros })) };
}

/** The number of events that have happened at a place on the axis. */
export function eventsAt(line: Timeline, x: number): number {
  let low = 0;
  let high = line.mark.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((line.mark[middle] as number) <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A bar to draw; `share` is how much of it is busy. */
export interface Bar {
  lane: number;
  x0: number;
  x1: number;
  tone: number;
  share: number;
}

/**
 * Bars for a width of so many pixels: events at least two pixels wide by themselves, runs of shorter ones summed per
 * pixel, so that the work is bounded by the width and not by the number of events.
 */
export function bars(line: Timeline, tone: ArrayLike<number>, tones: number, width: number): Bar[] {
  const pixels = Math.max(1, Math.ceil(width));
  const busy = new Float32Array(line.threads.length * pixels * tones);
  const out: Bar[] = [];
  for (let k = 0; k < line.from.length; k++) {
    const x0 = (line.from[k] as number) * width;
    const x1 = (line.to[k] as number) * width;
    const lane = line.lane[k] as number;
    if (x1 - x0 >= 2) {
      out.push({ lane, x0, x1, tone: tone[k] as number, share: 1 });
      continue;
    }
    const last = Math.min(pixels - 1, Math.floor(x1));
    for (let p = Math.min(pixels - 1, Math.floor(x0)); p <= last; p++) {
      const at = (lane * pixels + p) * tones + (tone[k] as number);
      busy[at] = (busy[at] as number) + Math.max(0, Math.min(x1, p + 1) - Math.max(x0, p));
    }
  }
  for (let lane = 0; lane < line.threads.length; lane++) {
    for (let p = 0; p < pixels; p++) {
      const bar = strongest(busy, (lane * pixels + p) * tones, tones);
      if (bar !== null) out.push({ lane, x0: p, x1: p + 1, ...bar });
    }
  }
  return out;
}

/** The tone that fills most of a pixel, with how much of the pixel all tones fill together. */
function strongest(busy: Float32Array, at: number, tones: number): { tone: number; share: number } | null {
  let tone = 0;
  let share = 0;
  for (let t = 0; t < tones; t++) {
    share += busy[at + t] as number;
    if ((busy[at + t] as number) > (busy[at + tone] as number)) tone = t;
  }
  return share > 0 ? { tone, share: Math.min(1, share) } : null;
}

/** For each pixel of a width the event, of those that end in it, that `size` is largest at; -1 before the first. */
export function tallest(line: Timeline, size: Float64Array, width: number): Int32Array {
  const pixels = Math.max(1, Math.ceil(width));
  const out = new Int32Array(pixels).fill(-1);
  for (let k = 0; k < line.from.length; k++) {
    const p = Math.min(pixels - 1, Math.floor((line.mark[k + 1] as number) * width));
    const before = out[p] as number;
    if (before < 0 || (size[k] as number) > (size[before] as number)) out[p] = k;
  }
  // A pixel in which nothing ends shows what was held before it.
  for (let p = 1; p < pixels; p++) if ((out[p] as number) < 0) out[p] = lastUpTo(line, out, p);
  return out;
}

function lastUpTo(line: Timeline, out: Int32Array, p: number): number {
  const pixels = out.length;
  return Math.max(-1, eventsAt(line, p / pixels) - 1);
}
