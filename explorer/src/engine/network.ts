/** The experiments with networks: the twins of `playground/network.py`, `classify.py`, `units.py` and `flow.py`. */
import type { Options } from "../views/play/messages";
import { crossEntropy, Net, squaredError, type Loss, type Rows } from "./net";
import { features, FEATURES, made, REACH, read, surface, type Learned, type Point } from "./points";
import { takeStep } from "./optimizer";
import { rounded, Run, told, type Shown } from "./runs";

/** Points a side of the picture of the result, and of those of neurons: every other one. */
const [SURFACE, THINNED] = [64, 2];
const EDGE = 1.15 * REACH;
const STARTS: Readonly<Record<string, number>> = { He: Math.SQRT2, LeCun: 1, "too small": 0.4, "too large": 3 };

interface Part {
  readonly points: readonly Point[];
  readonly labels: Float32Array;
  readonly input: Rows;
}

export class Network extends Run {
  readonly features: readonly string[];
  readonly train: Part;
  readonly test: Part;
  readonly net: Net;

  constructor(options: Options) {
    super(options);
    this.features = Object.keys(FEATURES).filter((name) => options[`use ${name}`] ?? (name === "x" || name === "y"));
    if (this.features.length === 0) throw new Error("the network needs at least one feature");
    const { points, labels } = this.drawn();
    const held = Math.min(points.length - 2, Math.max(2, rounded(points.length * Number(options.test ?? 0.3))));
    const part = (from: number, to?: number): Part => {
      const taken = points.slice(from, to);
      return { points: taken, labels: Float32Array.from(labels.slice(from, to)), input: this.rows(taken) };
    };
    [this.train, this.test] = [part(held), part(0, held)];
    this.net = this.network();
    const { depth } = this.net;
    for (let l = 0; l < depth; l++) {
      const scale = (l < depth - 1 ? this.firstScale() : 1) / Math.sqrt(this.net.in(l));
      this.net.weight(l).set(this.draws.normal(this.net.weight(l).length).map((z) => scale * z));
      this.net.bias(l).fill(this.firstBias());
    }
  }

  get parameters(): readonly Float32Array[] {
    return this.net.parameters;
  }

  // -- what an experiment may define

  protected drawn(): Learned {
    const { data, csv, points, noise } = this.options;
    return data === "own" ? read(String(csv), this.draws) : made(String(data), Number(points), Number(noise), this.draws);
  }
  protected network(): Net {
    const { width, layers, activation } = this.options;
    return new Net([this.features.length, ...new Array(Number(layers)).fill(Number(width)), 1], String(activation));
  }
  protected firstScale(): number {
    return ["relu", "gelu"].includes(String(this.options.activation)) ? Math.SQRT2 : 1;
  }
  protected firstBias(): number {
    return 0;
  }
  protected lossOf(result: Float32Array, labels: Float32Array): Loss {
    return crossEntropy(result, labels);
  }

  // -- the same for all

  protected rows(points: readonly Point[]): Rows {
    return { data: features(points, this.features), rows: points.length, columns: this.features.length };
  }

  private batch(): Part {
    const count = this.train.points.length;
    const size = this.options.batch === "all" ? count : Math.min(count, Number(this.options.batch));
    if (size === count) return this.train;
    const { input, labels } = this.train;
    const chosen = this.draws.chosen(size, count);
    const data = new Float32Array(size * input.columns);
    chosen.forEach((from, to) => data.set(input.data.subarray(from * input.columns, (from + 1) * input.columns), to * input.columns));
    return { points: [], labels: Float32Array.from(chosen, (i) => labels[i] as number), input: { data, rows: size, columns: input.columns } };
  }

  private gradientsOf({ input, labels }: Part): Float32Array[] {
    const pass = this.net.run(input);
    return this.net.back(pass, this.lossOf(pass.result, labels).gradient);
  }

  step(): void {
    const gradients = this.gradientsOf(this.batch());
    const [l1, l2] = [Number(this.options.l1 ?? 0), Number(this.options.l2 ?? 0)];
    if (l1 !== 0 || l2 !== 0) {
      for (let l = 0; l < this.net.depth; l++) {
        const g = gradients[2 * l] as Float32Array;
        this.net.weight(l).forEach((w, i) => (g[i] = (g[i] as number) + l1 * Math.sign(w) + l2 * w));
      }
    }
    takeStep(String(this.options.method), Number(this.options.rate), this.parameters, gradients, this.buffers);
  }

  measure(): number[] {
    const results = [this.train, this.test].map(({ input }) => this.net.run(input).result) as [Float32Array, Float32Array];
    const parts = [this.train, this.test] as const;
    const losses = parts.map(({ labels }, i) => this.lossOf(results[i] as Float32Array, labels).value);
    const right = parts.map(({ labels }, i) => labels.filter((y, k) => (results[i] as Float32Array)[k]! > 0 === y > 0.5).length / labels.length);
    return [...losses, ...right];
  }

  protected pointsTold(): object {
    const listed = ({ points, labels }: Part) => points.map(([x, y], i) => [x, y, labels[i]]);
    return { train: listed(this.train), test: listed(this.test), reach: REACH };
  }

  scene(): Shown {
    return { values: this.pointsTold(), arrays: {} };
  }

  shown(): Shown {
    return { values: {}, arrays: {} };
  }

  /** The gradient of the loss over all training points, by layer's weights. */
  protected weightGradients(): Float32Array[] {
    return this.gradientsOf(this.train).filter((_, i) => i < 2 * this.net.depth && i % 2 === 0);
  }

  override told(): object {
    const part = ({ points, labels }: Part) => [points.map(([x, y]) => [Math.fround(x), Math.fround(y)]), [...labels]];
    return { points: { train: part(this.train), test: part(this.test) } };
  }
}

const PLANE: readonly Point[] = Array.from({ length: SURFACE * SURFACE }, (_, i) => {
  const at = (k: number) => -EDGE + (2 * EDGE * k) / (SURFACE - 1);
  return [at(i % SURFACE), at(SURFACE - 1 - Math.floor(i / SURFACE))];
});

/** Numbers from -reach to reach as bytes: 128 is 0, 1 and 255 are the ends; 0 says that it is no number. */
function code(value: number, reach = 1): number {
  return Number.isNaN(value) ? 0 : rounded(128 + 127 * Math.max(-1, Math.min(1, value / reach)));
}

export class Separate extends Network {
  private readonly plane = this.rows(PLANE);

  protected coloured(result: number): number {
    return Math.tanh(0.5 * result);
  }

  override scene(): Shown {
    return { values: { ...this.pointsTold(), edge: EDGE, features: this.features }, arrays: {} };
  }

  override shown(): Shown {
    const { hidden, result } = this.net.run(this.plane);
    const side = SURFACE / THINNED;
    const widths = hidden.map((h) => h.columns);
    const reaches: number[] = [];
    const neurons = new Uint8Array(widths.reduce((a, b) => a + b, 0) * side * side);
    let unit = 0;
    for (const { data, columns } of hidden) {
      for (let c = 0; c < columns; c++, unit++) {
        const at = (i: number) => data[((Math.floor(i / side) * SURFACE + (i % side)) * THINNED) * columns + c] as number;
        let reach = 1e-12;
        for (let i = 0; i < side * side; i++) reach = Math.max(reach, Math.abs(at(i)));
        reaches.push(Number(reach.toPrecision(3)));
        for (let i = 0; i < side * side; i++) neurons[unit * side * side + i] = code(at(i), reach);
      }
    }
    const shown = (v: number) => (Number.isFinite(v) ? Number(v.toFixed(3)) : 0);
    const layers = Array.from({ length: this.net.depth }, (_, l) => l);
    const weights = layers.map((l) => Array.from({ length: this.net.out(l) }, (_, r) => [...this.net.weight(l).subarray(r * this.net.in(l), (r + 1) * this.net.in(l))].map(shown)));
    const values = { widths, reaches: reaches.map(told), weights, biases: layers.map((l) => [...this.net.bias(l)].map(shown)) };
    return { values, arrays: { surface: Uint8Array.from(result, (z) => code(this.coloured(z))), neurons } };
  }
}

export class Regress extends Separate {
  protected override drawn(): Learned {
    return surface(String(this.options.data), Number(this.options.points), Number(this.options.noise), this.draws);
  }
  protected override lossOf(result: Float32Array, labels: Float32Array): Loss {
    return squaredError(result, labels);
  }
  override measure(): number[] {
    return super.measure().slice(0, 2);
  }
  protected override coloured(result: number): number {
    return result;
  }
}

export class DeadUnits extends Network {
  protected override network(): Net {
    const { width, layers, leak } = this.options;
    return new Net([2, ...new Array(Number(layers)).fill(Number(width)), 1], leak === true ? "leaky relu" : "relu");
  }
  protected override firstScale(): number {
    return Number(this.options.scale);
  }
  protected override firstBias(): number {
    return Number(this.options.bias);
  }

  /** By layer and unit, the shares of points for which it is above 0, and not (NaN is neither). */
  private shares(): { above: number[][]; idle: number[][] } {
    const { hidden } = this.net.run(this.train.input);
    const share = (holds: (v: number) => boolean) =>
      hidden.map(({ data, rows, columns }) => Array.from({ length: columns }, (_, c) => data.filter((v, i) => i % columns === c && holds(v)).length / rows));
    return { above: share((v) => v > 0), idle: share((v) => v <= 0) };
  }

  private dead(idle: number[][]): number[][] {
    return idle.map((layer) => (this.options.leak === true ? [] : layer.flatMap((share, i) => (share === 1 ? [i] : []))));
  }

  override measure(): number[] {
    const dead = this.dead(this.shares().idle);
    return [...super.measure(), dead.flat().length / (dead.length * Number(this.options.width))];
  }

  override shown(): Shown {
    const { above, idle } = this.shares();
    const active = above.map((layer, l) => layer.map((share, u) => told(share + (idle[l]?.[u] as number) > 0 ? Number(share.toFixed(4)) : Number.NaN)));
    return { values: { active, dead: this.dead(idle), leak: this.options.leak }, arrays: {} };
  }
}

export class Vanishing extends Network {
  protected override network(): Net {
    const { width, depth, activation, residual, norm } = this.options;
    return new Net([2, ...new Array(Number(depth)).fill(Number(width)), 1], String(activation), residual === true, norm === true);
  }
  protected override firstScale(): number {
    return STARTS[String(this.options.start)] as number;
  }

  override shown(): Shown {
    const size = (data: Float32Array) => Math.sqrt(data.reduce((sum, v) => sum + v * v, 0));
    const { hidden } = this.net.run(this.train.input);
    const values = hidden.map(({ data }) => told(size(data) / Math.sqrt(data.length)));
    return { values: { values, gradients: this.weightGradients().map((g) => told(size(g))) }, arrays: {} };
  }
}
