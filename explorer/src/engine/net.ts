/** Small networks of linear layers, forward and backward, in single precision: the twin of `Net` in `playground/network.py`. */
import { erf } from "../scalar/special";

/** Rows of numbers, one after another. */
export interface Rows {
  readonly data: Float32Array;
  readonly rows: number;
  readonly columns: number;
}

interface Activation {
  readonly value: (z: number) => number;
  /** By the input and the value. */
  readonly slope: (z: number, value: number) => number;
}

const sigmoid = (z: number) => 1 / (1 + Math.exp(-z));
const bell = (z: number) => Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
const under = (z: number) => 0.5 * (1 + erf(z / Math.SQRT2));

const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  relu: { value: (z) => (z > 0 || Number.isNaN(z) ? z : 0), slope: (z) => (z > 0 ? 1 : 0) },
  tanh: { value: Math.tanh, slope: (_, v) => 1 - v * v },
  sigmoid: { value: sigmoid, slope: (_, v) => v * (1 - v) },
  gelu: { value: (z) => z * under(z), slope: (z) => under(z) + z * bell(z) },
  "leaky relu": { value: (z) => (z > 0 || Number.isNaN(z) ? z : 0.01 * z), slope: (z) => (z > 0 ? 1 : 0.01) },
};

/** What is added to the variance that layer normalisation divides by. */
const EPSILON = 1e-5;

interface Layer {
  readonly input: Rows;
  /** Before the activation, and before the normalisation. */
  readonly raw: Rows;
  readonly z: Rows;
  readonly spread: Float64Array | null;
  readonly active: Rows;
}

export interface Pass {
  readonly hidden: readonly Rows[];
  readonly result: Float32Array;
  readonly layers: readonly Layer[];
}

export class Net {
  /** Weight and bias of every layer in turn, then of every normalisation: the order of Wengert's parameters. */
  readonly parameters: Float32Array[] = [];
  private readonly act: Activation;

  constructor(
    readonly widths: readonly number[],
    activation: string,
    private readonly residual = false,
    private readonly normalised = false,
  ) {
    this.act = ACTIVATIONS[activation] as Activation;
    for (let l = 0; l < this.depth; l++) this.parameters.push(new Float32Array(this.out(l) * this.in(l)), new Float32Array(this.out(l)));
    if (normalised) {
      for (let l = 0; l < this.depth - 1; l++) this.parameters.push(new Float32Array(this.out(l)).fill(1), new Float32Array(this.out(l)));
    }
  }

  /** Layers, the one that gives the result included. */
  get depth(): number {
    return this.widths.length - 1;
  }
  in(layer: number): number {
    return this.widths[layer] as number;
  }
  out(layer: number): number {
    return this.widths[layer + 1] as number;
  }
  weight(layer: number): Float32Array {
    return this.parameters[2 * layer] as Float32Array;
  }
  bias(layer: number): Float32Array {
    return this.parameters[2 * layer + 1] as Float32Array;
  }
  private norm(layer: number, k: 0 | 1): number {
    return 2 * this.depth + 2 * layer + k;
  }

  run(input: Rows): Pass {
    const layers: Layer[] = [];
    let x = input;
    for (let l = 0; l < this.depth - 1; l++) {
      const raw = linear(x, this.weight(l), this.bias(l));
      const { z, spread } = this.normalised ? this.normalise(raw, l) : { z: raw, spread: null };
      const active = mapped(z, this.act.value);
      layers.push({ input: x, raw, z, spread, active });
      x = this.residual && x.columns === active.columns ? { ...active, data: active.data.map((v, i) => v + (x.data[i] as number)) } : active;
    }
    layers.push({ input: x, raw: x, z: x, spread: null, active: x });
    const last = this.depth - 1;
    const hidden = layers.slice(1).map((layer) => layer.input);
    return { hidden, result: linear(x, this.weight(last), this.bias(last)).data, layers };
  }

  private normalise(raw: Rows, layer: number): { z: Rows; spread: Float64Array } {
    const [gain, shift] = [this.parameters[this.norm(layer, 0)] as Float32Array, this.parameters[this.norm(layer, 1)] as Float32Array];
    const { rows, columns } = raw;
    const data = new Float32Array(rows * columns);
    const spread = new Float64Array(2 * rows);
    for (let r = 0; r < rows; r++) {
      const row = raw.data.subarray(r * columns, (r + 1) * columns);
      const mean = row.reduce((a, b) => a + b, 0) / columns;
      const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / columns;
      const scale = 1 / Math.sqrt(variance + EPSILON);
      spread[2 * r] = mean;
      spread[2 * r + 1] = scale;
      for (let c = 0; c < columns; c++) data[r * columns + c] = ((row[c] as number) - mean) * scale * (gain[c] as number) + (shift[c] as number);
    }
    return { z: { data, rows, columns }, spread };
  }

  /** The gradients of all parameters, from that of the results. */
  back(pass: Pass, results: Float32Array): Float32Array[] {
    const found = this.parameters.map((p) => new Float32Array(p.length));
    let above: Rows = { data: results, rows: results.length, columns: 1 };
    for (let l = this.depth - 1; l >= 0; l--) {
      const layer = pass.layers[l] as Layer;
      let through = above;
      if (l < this.depth - 1) {
        const { z, active } = layer;
        through = { ...above, data: above.data.map((g, i) => g * this.act.slope(z.data[i] as number, active.data[i] as number)) };
        if (layer.spread !== null) through = this.denormalise(layer, through, found, l);
      }
      const input = pulled(layer.input, this.weight(l), through, found[2 * l] as Float32Array, found[2 * l + 1] as Float32Array);
      const passes = l < this.depth - 1 && this.residual && layer.input.columns === above.columns;
      above = passes ? { ...input, data: input.data.map((g, i) => g + (above.data[i] as number)) } : input;
    }
    return found;
  }

  private denormalise({ raw, spread }: Layer, above: Rows, found: Float32Array[], layer: number): Rows {
    const gain = this.parameters[this.norm(layer, 0)] as Float32Array;
    const [toGain, toShift] = [found[this.norm(layer, 0)] as Float32Array, found[this.norm(layer, 1)] as Float32Array];
    const { rows, columns } = raw;
    const data = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) {
      const [mean, scale] = [spread?.[2 * r] as number, spread?.[2 * r + 1] as number];
      let [sum, product] = [0, 0];
      for (let c = 0; c < columns; c++) {
        const [g, unit] = [above.data[r * columns + c] as number, ((raw.data[r * columns + c] as number) - mean) * scale];
        toGain[c] = (toGain[c] as number) + g * unit;
        toShift[c] = (toShift[c] as number) + g;
        sum += g * (gain[c] as number);
        product += g * (gain[c] as number) * unit;
      }
      for (let c = 0; c < columns; c++) {
        const [g, unit] = [above.data[r * columns + c] as number, ((raw.data[r * columns + c] as number) - mean) * scale];
        data[r * columns + c] = scale * (g * (gain[c] as number) - sum / columns - (unit * product) / columns);
      }
    }
    return { data, rows, columns };
  }
}

function mapped({ data, rows, columns }: Rows, f: (z: number) => number): Rows {
  const found = new Float32Array(data.length);
  for (let i = 0; i < data.length; i++) found[i] = f(data[i] as number);
  return { data: found, rows, columns };
}

function linear(x: Rows, weight: Float32Array, bias: Float32Array): Rows {
  const columns = bias.length;
  const data = new Float32Array(x.rows * columns);
  for (let r = 0; r < x.rows; r++) {
    for (let c = 0; c < columns; c++) {
      let sum = bias[c] as number;
      for (let k = 0; k < x.columns; k++) sum += (x.data[r * x.columns + k] as number) * (weight[c * x.columns + k] as number);
      data[r * columns + c] = sum;
    }
  }
  return { data, rows: x.rows, columns };
}

/** Adds to the gradients of a linear layer's weight and bias, and gives that of its input. */
function pulled(x: Rows, weight: Float32Array, above: Rows, toWeight: Float32Array, toBias: Float32Array): Rows {
  const data = new Float32Array(x.rows * x.columns);
  for (let r = 0; r < x.rows; r++) {
    for (let c = 0; c < above.columns; c++) {
      const g = above.data[r * above.columns + c] as number;
      toBias[c] = (toBias[c] as number) + g;
      for (let k = 0; k < x.columns; k++) {
        const [w, at] = [c * x.columns + k, r * x.columns + k];
        toWeight[w] = (toWeight[w] as number) + g * (x.data[at] as number);
        data[at] = (data[at] as number) + g * (weight[w] as number);
      }
    }
  }
  return { data, rows: x.rows, columns: x.columns };
}

// -- losses: the value, and the gradient of the results

export interface Loss {
  readonly value: number;
  readonly gradient: Float32Array;
}

/** Binary cross-entropy of logits. */
export function crossEntropy(result: Float32Array, labels: Float32Array): Loss {
  const n = result.length;
  let sum = 0;
  const gradient = result.map((z, i) => {
    const y = labels[i] as number;
    sum += Math.max(z, 0) - z * y + Math.log1p(Math.exp(-Math.abs(z)));
    return (sigmoid(z) - y) / n;
  });
  return { value: sum / n, gradient };
}

export function squaredError(result: Float32Array, labels: Float32Array): Loss {
  const n = result.length;
  let sum = 0;
  const gradient = result.map((z, i) => {
    const error = z - (labels[i] as number);
    sum += error * error;
    return (2 * error) / n;
  });
  return { value: sum / n, gradient };
}
