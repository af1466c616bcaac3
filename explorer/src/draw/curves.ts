/** Curves of cubic Bezier pieces: points on them, lines beside them, arrow heads, path data. */
import type { Rect, Route } from "../layout/types";

export interface Along {
  readonly x: number;
  readonly y: number;
  /** Direction of travel, of length 1. */
  readonly dx: number;
  readonly dy: number;
}

function at(route: Route, piece: number, t: number): Along {
  const i = piece * 6;
  const s = 1 - t;
  const x0 = route[i]!;
  const y0 = route[i + 1]!;
  const x1 = route[i + 2]!;
  const y1 = route[i + 3]!;
  const x2 = route[i + 4]!;
  const y2 = route[i + 5]!;
  const x3 = route[i + 6]!;
  const y3 = route[i + 7]!;
  const a = s * s * s;
  const b = 3 * s * s * t;
  const c = 3 * s * t * t;
  const d = t * t * t;
  let dx = s * s * (x1 - x0) + 2 * s * t * (x2 - x1) + t * t * (x3 - x2);
  let dy = s * s * (y1 - y0) + 2 * s * t * (y2 - y1) + t * t * (y3 - y2);
  let length = Math.hypot(dx, dy);
  if (length < 1e-9) {
    [dx, dy] = [x3 - x0, y3 - y0];
    length = Math.hypot(dx, dy) || 1;
  }
  return { x: a * x0 + b * x1 + c * x2 + d * x3, y: a * y0 + b * y1 + c * y2 + d * y3, dx: dx / length, dy: dy / length };
}

export function pieces(route: Route): number {
  return Math.max(0, (route.length - 2) / 6);
}

function isStraight(route: Route, piece: number): boolean {
  const i = piece * 6;
  const [dx, dy] = [route[i + 6]! - route[i]!, route[i + 7]! - route[i + 1]!];
  const off = (j: number) => Math.abs((route[j]! - route[i]!) * dy - (route[j + 1]! - route[i + 1]!) * dx);
  return off(i + 2) + off(i + 4) < 1e-6 * (1 + dx * dx + dy * dy);
}

/** Points along a route, `steps` to each bent piece: x0, y0, x1, y1, ... */
export function pointsAlong(route: Route, steps = 8): Float64Array {
  const points = [route[0]!, route[1]!];
  for (let p = 0; p < pieces(route); p++) {
    const n = isStraight(route, p) ? 1 : steps;
    for (let k = 1; k <= n; k++) {
      const { x, y } = at(route, p, k / n);
      points.push(x, y);
    }
  }
  return Float64Array.from(points);
}

/** Length of a route, by its points. */
export function lengthOf(route: Route): number {
  const points = pointsAlong(route);
  let sum = 0;
  for (let i = 2; i < points.length; i += 2) sum += Math.hypot(points[i]! - points[i - 2]!, points[i + 1]! - points[i - 1]!);
  return sum;
}

/** The place at a share (0 to 1) of a route's length. */
export function placeAlong(route: Route, share: number): Along {
  const count = pieces(route);
  if (count === 0) return { x: route[0] ?? 0, y: route[1] ?? 0, dx: 1, dy: 0 };
  const STEPS = 16;
  const lengths: number[] = [];
  let total = 0;
  let before = at(route, 0, 0);
  for (let p = 0; p < count; p++) {
    for (let k = 1; k <= STEPS; k++) {
      const point = at(route, p, k / STEPS);
      total += Math.hypot(point.x - before.x, point.y - before.y);
      lengths.push(total);
      before = point;
    }
  }
  const goal = Math.min(1, Math.max(0, share)) * total;
  let k = lengths.findIndex((length) => length >= goal);
  if (k < 0) k = lengths.length - 1;
  const low = k === 0 ? 0 : lengths[k - 1]!;
  const part = lengths[k]! > low ? (goal - low) / (lengths[k]! - low) : 0;
  return at(route, Math.floor(k / STEPS), ((k % STEPS) + part) / STEPS);
}

/** How fast and how sharply a piece runs at t: the length of its derivative, and its curvature. */
function motion(route: Route, piece: number, t: number): { speed: number; bend: number } {
  const i = piece * 6;
  const dx = slope(route, i, t);
  const dy = slope(route, i + 1, t);
  const speed = Math.hypot(dx, dy);
  if (speed < 1e-9) return { speed: 0, bend: 0 };
  return { speed, bend: (dx * turning(route, i + 1, t) - dy * turning(route, i, t)) / speed ** 3 };
}

/** First derivative of one coordinate of the piece that begins at i. */
function slope(route: Route, i: number, t: number): number {
  const s = 1 - t;
  return 3 * (s * s * (route[i + 2]! - route[i]!) + 2 * s * t * (route[i + 4]! - route[i + 2]!) + t * t * (route[i + 6]! - route[i + 4]!));
}

/** Second derivative. */
function turning(route: Route, i: number, t: number): number {
  return 6 * ((1 - t) * (route[i + 4]! - 2 * route[i + 2]! + route[i]!) + t * (route[i + 6]! - 2 * route[i + 4]! + route[i + 2]!));
}

/** Parts into which a bent piece is cut to be drawn beside itself. */
const PARTS = 4;

/**
 * The route `by` units beside this one: to the right of the direction of travel (downwards, going right) if positive.
 * Each part starts and ends as the exact parallel curve does, in place, direction and speed.
 */
export function beside(route: Route, by: number): Route {
  const out: number[] = [];
  for (let p = 0; p < pieces(route); p++) {
    const parts = isStraight(route, p) ? 1 : PARTS;
    for (let k = 0; k < parts; k++) {
      const [a, b] = [at(route, p, k / parts), at(route, p, (k + 1) / parts)];
      const [ax, ay, bx, by2] = [a.x - a.dy * by, a.y + a.dx * by, b.x - b.dy * by, b.y + b.dx * by];
      if (out.length === 0) out.push(ax, ay);
      const handle = (t: number) => {
        const { speed, bend } = motion(route, p, t);
        return (speed * Math.max(0.1, 1 - bend * by)) / (3 * parts);
      };
      const [start, end] = [handle(k / parts), handle((k + 1) / parts)];
      out.push(ax + a.dx * start, ay + a.dy * start, bx - b.dx * end, by2 - b.dy * end, bx, by2);
    }
  }
  return Float64Array.from(out);
}

/** The same way back. */
export function reversed(route: Route): Route {
  const out = new Float64Array(route.length);
  for (let i = 0; i < route.length; i += 2) {
    out[i] = route[route.length - 2 - i]!;
    out[i + 1] = route[route.length - 1 - i]!;
  }
  return out;
}

/** The route without its last `length` units (as far as its last piece goes). */
export function shortened(route: Route, length: number): Route {
  const count = pieces(route);
  if (count === 0) return route;
  const i = (count - 1) * 6;
  const last = Math.hypot(route[i + 6]! - route[i + 4]!, route[i + 7]! - route[i + 5]!) * 3;
  const t = Math.max(0.3, 1 - length / Math.max(1e-9, last));
  const out = route.slice();
  // De Casteljau: the first part of the piece, up to t.
  const mix = (a: number, b: number) => a + (b - a) * t;
  for (const axis of [0, 1]) {
    const [p0, p1, p2, p3] = [route[i + axis]!, route[i + 2 + axis]!, route[i + 4 + axis]!, route[i + 6 + axis]!];
    const [a, b, c] = [mix(p0, p1), mix(p1, p2), mix(p2, p3)];
    const [d, e] = [mix(a, b), mix(b, c)];
    out[i + 2 + axis] = a;
    out[i + 4 + axis] = d;
    out[i + 6 + axis] = mix(d, e);
  }
  return out;
}

/** Path data of a filled arrow head at the end of a route. */
export function arrowHead(route: Route, length: number, half: number): string {
  const count = pieces(route);
  const { x, y, dx, dy } = at(route, count - 1, 1);
  const [bx, by] = [x - dx * length, y - dy * length];
  const [nx, ny] = [x - dx * length * 0.78, y - dy * length * 0.78];
  return `M${num(x)} ${num(y)}L${num(bx - dy * half)} ${num(by + dx * half)}L${num(nx)} ${num(ny)}L${num(bx + dy * half)} ${num(by - dx * half)}Z`;
}

/** A number with two decimals. Whole numbers are put together: writing fractions is what path data would spend its time on. */
export function num(value: number): string {
  const hundredths = Math.round(value * 100);
  const size = Math.abs(hundredths);
  const rest = size % 100;
  const whole = (size - rest) / 100;
  const sign = hundredths < 0 ? "-" : "";
  return rest === 0 ? sign + whole : `${sign}${whole}.${rest < 10 ? "0" : ""}${rest}`;
}

export function pathData(route: Route): string {
  let d = `M${num(route[0]!)} ${num(route[1]!)}`;
  for (let p = 0; p < pieces(route); p++) {
    const i = p * 6;
    if (isStraight(route, p)) d += `L${num(route[i + 6]!)} ${num(route[i + 7]!)}`;
    else d += `C${num(route[i + 2]!)} ${num(route[i + 3]!)} ${num(route[i + 4]!)} ${num(route[i + 5]!)} ${num(route[i + 6]!)} ${num(route[i + 7]!)}`;
  }
  return d;
}

export function boxOf(points: ArrayLike<number>, margin = 0): Rect {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    x0 = Math.min(x0, points[i]!);
    x1 = Math.max(x1, points[i]!);
    y0 = Math.min(y0, points[i + 1]!);
    y1 = Math.max(y1, points[i + 1]!);
  }
  return { x: x0 - margin, y: y0 - margin, width: x1 - x0 + 2 * margin, height: y1 - y0 + 2 * margin };
}

/** Distance from a point to a line through points. */
export function distanceTo(points: Float64Array, x: number, y: number): number {
  let least = Infinity;
  for (let i = 2; i < points.length; i += 2) {
    const [x0, y0] = [points[i - 2]!, points[i - 1]!];
    const [dx, dy] = [points[i]! - x0, points[i + 1]! - y0];
    const length = dx * dx + dy * dy;
    const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / length));
    least = Math.min(least, Math.hypot(x - x0 - t * dx, y - y0 - t * dy));
  }
  return least;
}
