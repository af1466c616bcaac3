/** Scales of charts: from numbers to pixels, and the round numbers to write beside them. */

export interface Scale {
  (value: number): number;
  /** Back from pixels. */
  readonly inverse: (at: number) => number;
  readonly ticks: readonly number[];
}

export function linear(from: number, to: number, low: number, high: number, count = 5): Scale {
  const span = to - from || 1;
  const at = (value: number) => low + ((value - from) / span) * (high - low);
  const inverse = (pixel: number) => from + ((pixel - low) / (high - low || 1)) * span;
  return Object.assign(at, { inverse, ticks: roundTicks(from, to, count) });
}

/** For positive numbers; those that are not stand at the lower end. */
export function logarithmic(from: number, to: number, low: number, high: number): Scale {
  const [a, b] = [Math.log10(from), Math.log10(to)];
  const span = b - a || 1;
  const at = (value: number) => low + ((value > 0 ? Math.max(Math.log10(value), a - 1) : a) - a) * ((high - low) / span);
  const inverse = (pixel: number) => 10 ** (a + ((pixel - low) / (high - low || 1)) * span);
  const [first, last] = [Math.ceil(a - 1e-9), Math.floor(b + 1e-9)];
  const every = Math.max(1, Math.ceil((last - first) / 5));
  const ticks: number[] = [];
  for (let power = first; power <= last; power += every) ticks.push(10 ** power);
  // Less than two decades: 2 and 5 are written too.
  if (ticks.length < 2) {
    for (let power = first - 1; power <= last; power++) {
      for (const m of [2, 5]) if (m * 10 ** power >= from && m * 10 ** power <= to) ticks.push(m * 10 ** power);
    }
  }
  return Object.assign(at, { inverse, ticks });
}

/** About `count` multiples of 1, 2 or 5 times a power of ten between two numbers. */
export function roundTicks(from: number, to: number, count: number): number[] {
  const [low, high] = from < to ? [from, to] : [to, from];
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((m) => m * power).find((u) => u >= rough * 0.999) as number;
  const ticks: number[] = [];
  for (let k = Math.ceil(low / unit - 1e-9); k * unit <= high + unit * 1e-9; k++) ticks.push(Number((k * unit).toPrecision(12)));
  return ticks;
}

/** The least and the greatest of the finite numbers. */
export function extent(values: Iterable<number>): [number, number] | null {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : null;
}
