/** Points in the plane, and what is to be learned of them: the twin of `playground/points.py`. */
import { Draws } from "./draws";

export type Point = readonly [number, number];
type Sampler = (draws: Draws, count: number) => Point[];

export const REACH = 3;
const MOST_POINTS = 2000;
const TURN = 2 * Math.PI;

const zipped = (x: readonly number[], y: readonly number[]): Point[] => x.map((at, i) => [at, y[i] as number]);

const spirals: Sampler = (_, count) =>
  Array.from({ length: count }, (_unused, i) => {
    const along = (i + 0.5) / count;
    const angle = 1.5 * TURN * along;
    return [0.95 * along * Math.sin(angle), 0.95 * along * Math.cos(angle)];
  });

const polar = (angle: readonly number[], radius: readonly number[]): Point[] =>
  angle.map((a, i) => [(radius[i] as number) * Math.sin(a), (radius[i] as number) * Math.cos(a)]);

const disc: Sampler = (draws, count) => {
  const angle = draws.uniform(0, TURN, count);
  return polar(angle, draws.uniform(0, 1, count).map((share) => 0.45 * Math.sqrt(share)));
};

const ring: Sampler = (draws, count) => {
  const angle = draws.uniform(0, TURN, count);
  return polar(angle, draws.uniform(0.7, 1, count));
};

const corners =
  (sign: number): Sampler =>
  (draws, count) => {
    const x = draws.uniform(0.08, 0.95, 2 * count);
    const sides = draws.uniform(0, 1, count).map((share) => (share < 0.5 ? -1 : 1));
    return sides.map((side, i) => [(x[2 * i] as number) * side, (x[2 * i + 1] as number) * side * sign]);
  };

const moon: Sampler = (draws, count) =>
  draws.uniform(0, Math.PI, count).map((angle) => [0.62 * (Math.cos(angle) - 0.5), 0.62 * (Math.sin(angle) - 0.25)]);

const cloud: Sampler = (draws, count) => {
  const drawn = draws.normal(2 * count).map((z) => 0.42 + 0.2 * z);
  return zipped(drawn.filter((_, i) => i % 2 === 0), drawn.filter((_, i) => i % 2 === 1));
};

const mirrored =
  (sample: Sampler): Sampler =>
  (draws, count) =>
    sample(draws, count).map(([x, y]) => [-x, -y]);

const SETS: Readonly<Record<string, readonly [Sampler, Sampler]>> = {
  spirals: [spirals, mirrored(spirals)],
  circles: [disc, ring],
  xor: [corners(1), corners(-1)],
  moons: [moon, mirrored(moon)],
  gaussians: [cloud, mirrored(cloud)],
};

const bump = ([x, y]: Point, across: number, up: number) => Math.exp(-((x / REACH - across) ** 2 + (y / REACH - up) ** 2) / 0.08);

const SURFACES: Readonly<Record<string, (p: Point) => number>> = {
  plane: ([x, y]) => (x + y) / (2 * REACH),
  saddle: ([x, y]) => (x * y) / REACH ** 2,
  bumps: (p) => bump(p, 0.5, 0.5) + bump(p, -0.5, -0.5) - bump(p, -0.5, 0.5) - bump(p, 0.5, -0.5),
  waves: ([x, y]) => Math.sin(2 * x) * Math.cos(y),
};

export const FEATURES: Readonly<Record<string, (p: Point) => number>> = {
  x: ([x]) => x,
  y: ([, y]) => y,
  "x²": ([x]) => x * x,
  "y²": ([, y]) => y * y,
  xy: ([x, y]) => x * y,
  "sin x": ([x]) => Math.sin(x),
  "sin y": ([, y]) => Math.sin(y),
};

export interface Learned {
  readonly points: readonly Point[];
  readonly labels: readonly number[];
}

export function features(points: readonly Point[], names: readonly string[]): Float32Array {
  const taken = names.map((name) => FEATURES[name] as (p: Point) => number);
  const found = new Float32Array(points.length * taken.length);
  points.forEach((point, i) => taken.forEach((feature, k) => (found[i * taken.length + k] = feature(point))));
  return found;
}

function picked({ points, labels }: Learned, order: readonly number[]): Learned {
  return { points: order.map((i) => points[i] as Point), labels: order.map((i) => labels[i] as number) };
}

export function made(name: string, count: number, noise: number, draws: Draws): Learned {
  const [first, second] = SETS[name] as readonly [Sampler, Sampler];
  const ones = Math.floor(count / 2);
  const zeros = second(draws, count - ones);
  const clean = [...zeros, ...first(draws, ones)];
  const shaken = draws.normal(2 * count);
  const points = clean.map(([x, y], i): Point => [REACH * x + noise * (shaken[2 * i] as number), REACH * y + noise * (shaken[2 * i + 1] as number)]);
  return picked({ points, labels: points.map((_, i) => (i < count - ones ? 0 : 1)) }, draws.chosen(count, count));
}

export function surface(name: string, count: number, noise: number, draws: Draws): Learned {
  const at = draws.uniform(-1, 1, 2 * count).map((z) => 0.95 * REACH * z);
  const points = Array.from({ length: count }, (_, i): Point => [at[2 * i] as number, at[2 * i + 1] as number]);
  const shaken = draws.normal(count);
  const height = SURFACES[name] as (p: Point) => number;
  return { points, labels: points.map((p, i) => height(p) + noise * (shaken[i] as number)) };
}

/** The reader's own points. Throws an Error that names the line. */
export function read(text: string, draws: Draws): Learned {
  const separator = [";", "\t"].find((s) => text.includes(s)) ?? ",";
  const points: Point[] = [];
  const labels: number[] = [];
  const known = new Map<string, number>();
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    const cells = line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
    if (cells.every((cell) => cell === "")) continue;
    const numbers = cells.slice(0, 2).map((cell) => (cell === "" ? Number.NaN : Number(cell)));
    const good = numbers.length === 2 && numbers.every(Number.isFinite);
    if (!good && points.length === 0) continue;
    if (!good || cells.length !== 3) throw new Error(`line ${at + 1} of the data is no x, y, class`);
    const name = cells[2] as string;
    if (!known.has(name)) known.set(name, known.size);
    if (known.size > 2) throw new Error(`line ${at + 1} of the data has a third class: there are two`);
    points.push([numbers[0] as number, numbers[1] as number]);
    labels.push(known.get(name) as number);
    if (points.length > MOST_POINTS) throw new Error(`there are more than ${MOST_POINTS.toLocaleString("en")} points in the data`);
  }
  if (known.size < 2 || points.length < 8) throw new Error("the data need 8 points or more, and two classes");
  const scaled = [0, 1].map((axis) => {
    const values = points.map((p) => p[axis] as number);
    const middle = (Math.max(...values) + Math.min(...values)) / 2;
    const largest = Math.max(...values.map((v) => Math.abs(v - middle))) || 1;
    return values.map((v) => (0.95 * REACH * (v - middle)) / largest);
  }) as [number[], number[]];
  return picked({ points: zipped(...scaled), labels }, draws.chosen(points.length, points.length));
}
