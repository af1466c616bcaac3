/** The loss along one node, sampled for a curve: where to look, the lowest or highest points, round names for numbers. */
import { shownNumber } from "../../../format";

export type Curve = (at: number) => number;

export interface Samples {
  readonly from: number;
  readonly to: number;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** The range of finite values that is drawn. */
  readonly low: number;
  readonly high: number;
  /** Places inside where the curve is lowest or highest around. */
  readonly turns: readonly number[];
}

const POINTS = 121;

/**
 * The stretch to show around a place: on both sides of where a parabola with the same slope and curvature would turn, if
 * that is near; else as far as the number itself is large.
 */
export function stretchOf(curve: Curve, at: number): [number, number] {
  const size = Math.max(1, Math.abs(at));
  const h = 1e-3 * size;
  const slope = (curve(at + h) - curve(at - h)) / (2 * h);
  const bend = (curve(at + h) - 2 * curve(at) + curve(at - h)) / (h * h);
  const turn = at - slope / bend;
  const away = Math.abs(turn - at);
  const near = Number.isFinite(turn) && away < 3 * size && away > 0.02 * size;
  return near ? [turn - 1.9 * away, turn + 1.9 * away] : [at - size, at + size];
}

export function sample(curve: Curve, from: number, to: number): Samples {
  const x = Array.from({ length: POINTS }, (_, i) => from + ((to - from) * i) / (POINTS - 1));
  const y = x.map(curve);
  const finite = y.filter(Number.isFinite).sort((a, b) => a - b);
  const part = (share: number) => finite[Math.round(share * (finite.length - 1))] ?? 0;
  const [lower, upper] = [part(0.1), part(0.9)];
  const spread = upper - lower;
  // A pole would flatten everything else: what is far outside of four fifths of the curve is cut off.
  const far = 4 * spread;
  const low = spread > 0 && part(0) < lower - far ? lower - spread : part(0);
  const high = spread > 0 && part(1) > upper + far ? upper + spread : part(1);
  return { from, to, x, y, low, high, turns: turnsOf(curve, x, y) };
}

/** Whether there is a place to show, on a stretch and in a range that are numbers. */
export function canBeDrawn(at: number, { from, to, low, high }: Samples): boolean {
  return [at, to - from, high - low].every(Number.isFinite);
}

/** A vector of this length along a slope; `across` and `up` say how long the units of both axes are drawn. */
export function along(slope: number, across: number, up: number, length: number): [number, number] {
  const rise = (slope * up) / across;
  const run = length / Math.hypot(1, rise);
  // A slope beyond all numbers is upright.
  return Number.isFinite(rise) ? [run, run * rise] : [0, Math.sign(rise) * length];
}

function turnsOf(curve: Curve, x: readonly number[], y: readonly number[]): number[] {
  const turns: number[] = [];
  for (let i = 1; i + 1 < x.length; i++) {
    const [before, here, after] = [y[i - 1] as number, y[i] as number, y[i + 1] as number];
    if (here <= before && here < after) turns.push(lowest(curve, x[i - 1] as number, x[i + 1] as number));
    else if (here >= before && here > after)
      turns.push(lowest((at) => -curve(at), x[i - 1] as number, x[i + 1] as number));
  }
  // More than a few are noise, not places to point at.
  return turns.length <= 3 ? turns : [];
}

/** Golden-section search (Kiefer 1953). */
function lowest(curve: Curve, from: number, to: number): number {
  const ratio = (Math.sqrt(5) - 1) / 2;
  let [a, b] = [from, to];
  let [c, d] = [b - ratio * (b - a), a + ratio * (b - a)];
  let [fc, fd] = [curve(c), curve(d)];
  while (b - a > 1e-8 * Math.max(1, Math.abs(a))) {
    if (fc < fd) {
      [b, d, fd] = [d, c, fc];
      c = b - ratio * (b - a);
      fc = curve(c);
    } else {
      [a, c, fc] = [c, d, fd];
      d = a + ratio * (b - a);
      fd = curve(d);
    }
  }
  return (a + b) / 2;
}

/** "4/3" where a number is very nearly a fraction of small whole numbers, else its digits. */
export function roundName(value: number): string {
  for (let below = 1; below <= 12; below++) {
    const above = Math.round(value * below);
    if (Math.abs(value * below - above) < 1e-6 * Math.max(1, Math.abs(above))) {
      if (below === 1) return shownNumber(above);
      // Halves, fifths and the like are read more easily as digits.
      return 1000 % below === 0 ? shownNumber(above / below) : `${above < 0 ? "−" : ""}${Math.abs(above)}/${below}`;
    }
  }
  return shownNumber(value, 3);
}
