/** The experiment of fitting a line: the twin of `playground/line.py`. */
import type { Options } from "../views/play/messages";
import { leastSquares, meanSquare, sharpness } from "./bowl";
import { copied, MOMENTUM, takeStep } from "./optimizer";
import { Run, told, type GraphNumbers, type Shown } from "./runs";

const [SLOPE, INTERCEPT] = [3, 7];
const START = [-1.5, 1.2] as const;
const COUNT = 24;

export interface Listing {
  readonly code: readonly string[];
  readonly lit: number;
}

export class FitLine extends Run {
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly parameters = START.map((v) => Float64Array.of(v));
  private gradient = [0, 0];

  constructor(
    options: Options,
    private readonly listings: Readonly<Record<"plain" | "other", Listing>>,
  ) {
    super(options);
    this.x = this.draws.uniform(-2.2, 2.4, COUNT);
    const noise = this.draws.normal(COUNT);
    this.y = this.x.map((x, i) => SLOPE * x + INTERCEPT + Number(options.noise) * (noise[i] as number));
  }

  private get now(): [number, number] {
    return this.parameters.map((p) => p[0]) as [number, number];
  }

  private batch(): number[] {
    const size = Number(this.options.batch);
    return size === COUNT ? this.x.map((_, i) => i) : this.draws.chosen(size, COUNT).sort((a, b) => a - b);
  }

  private slopes(points: readonly number[]): [number, number] {
    const [w, b] = this.now;
    let [toW, toB] = [0, 0];
    for (const i of points) {
      const error = w * (this.x[i] as number) + b - (this.y[i] as number);
      toW += (2 * error * (this.x[i] as number)) / points.length;
      toB += (2 * error) / points.length;
    }
    return [toW, toB];
  }

  step(): void {
    this.gradient = this.slopes(this.batch());
    const rate = Number(this.options.rate);
    takeStep(String(this.options.method), rate, this.parameters, this.gradient.map((g) => Float64Array.of(g)), this.buffers);
  }

  measure(): number[] {
    const [w, b] = this.now;
    return [meanSquare(this.x, this.y, w, b), w, b];
  }

  get limit(): number | null {
    const { method } = this.options;
    return method === "Adam" ? null : (2 * (1 + (method === "momentum" ? MOMENTUM : 0))) / sharpness(this.x);
  }

  scene(): Shown {
    const { x, y } = this;
    const best = leastSquares(x, y);
    const values = { x, y, truth: [SLOPE, INTERCEPT], best, least: told(meanSquare(x, y, ...best)), curvature: told(sharpness(x)), start: START };
    return { values, arrays: {} };
  }

  shown(): Shown {
    const state = { parameters: this.parameters.map((p) => p.slice()), buffers: copied(this.buffers), draws: this.draws.state };
    const now = this.now;
    this.step();
    const [next, gradient] = [this.now, this.gradient];
    this.parameters.forEach((p, i) => p.set(state.parameters[i] as Float64Array));
    this.buffers = state.buffers;
    this.draws.state = state.draws;
    const rate = Number(this.options.rate);
    const plain = this.options.method === "plain";
    const direction = plain ? gradient : now.map((a, i) => (a - (next[i] as number)) / rate);
    const values = {
      now: now.map(told),
      next: next.map(told),
      gradient: gradient.map(told),
      direction: direction.map(told),
      limit: this.limit === null ? null : told(this.limit),
      ...this.listings[plain ? "plain" : "other"],
    };
    return { values, arrays: {} };
  }

  override graph(): GraphNumbers {
    const drawn = this.draws.state;
    const points = this.batch();
    this.draws.state = drawn;
    const [w, b] = this.now;
    const [toW, toB] = this.slopes(points);
    const loss = points.reduce((sum, i) => sum + (w * (this.x[i] as number) + b - (this.y[i] as number)) ** 2, 0) / points.length;
    return { batch: points.length, values: { w, b, loss }, gradients: { w: toW, b: toB, loss: 1 } };
  }

  override told(): object {
    return { points: { train: [this.x, this.y] } };
  }
}
