/**
 * What single numbers become under each operation that has a plain formula, and by how much per operand.
 *
 * Values and partial derivatives are those of the op table's declarations, conventions at corners included (ties of a
 * maximum share, relu' (0) = 0, x ** 0 is constant). A partial of null says that nothing flows: not a gradient of 0, which
 * an infinity would turn into NaN. Operations that are missing here have no plain formula of one number.
 */
import { erf, erfc } from "./special";

export type Attributes = { readonly [name: string]: unknown };
type Partial = number | null;

export interface ScalarOp {
  value(args: readonly number[], attrs: Attributes): number;
  /** One per argument. */
  partials(args: readonly number[], out: number, attrs: Attributes): Partial[];
}

type Unary = (x: number) => number;
type Binary = (x: number, y: number) => number;

const arg = (args: readonly number[], i: number): number => args[i] ?? Number.NaN;

function unary(value: Unary, slope: (x: number, out: number) => Partial): ScalarOp {
  return {
    value: (args) => value(arg(args, 0)),
    partials: (args, out) => [slope(arg(args, 0), out)],
  };
}

function binary(value: Binary, slopes: (x: number, y: number, out: number) => [Partial, Partial]): ScalarOp {
  return {
    value: (args) => value(arg(args, 0), arg(args, 1)),
    partials: (args, out) => slopes(arg(args, 0), arg(args, 1), out),
  };
}

const logistic: Unary = (x) => 1 / (1 + Math.exp(-x));
const softplus: Unary = (x) => Math.log1p(Math.exp(-Math.abs(x))) + Math.max(x, 0);
const bell: Unary = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const normal: Unary = (x) => erfc(-x / Math.SQRT2) / 2;
const only = (flows: boolean, slope = 1): Partial => (flows ? slope : null);
const modulo: Binary = (x, y) => x - y * Math.floor(x / y);

/** Halves go to the even neighbour, as NumPy rounds. */
function roundHalfEven(x: number): number {
  const below = Math.floor(x);
  const over = x - below;
  if (over !== 0.5) return over < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

function powerInBase(x: number, y: number): number {
  if (y === 0) return 0;
  return y === 1 ? 1 : y * x ** (y - 1);
}

function extreme(pick: Binary, loses: (x: number, y: number) => boolean): ScalarOp {
  const share = (x: number, y: number): Partial => (loses(x, y) ? null : x === y ? 0.5 : 1);
  return binary(pick, (x, y) => [share(x, y), share(y, x)]);
}

const TANH_SCALE = Math.sqrt(2 / Math.PI);
const TANH_CUBE = 0.044715;

const gelu: ScalarOp = {
  value: ([x = Number.NaN], { approximate }) =>
    approximate === "tanh" ? 0.5 * x * (1 + Math.tanh(TANH_SCALE * (x + TANH_CUBE * x ** 3))) : x * normal(x),
  partials: ([x = Number.NaN], _out, { approximate }) => {
    if (approximate !== "tanh") return [normal(x) + x * bell(x)];
    const t = Math.tanh(TANH_SCALE * (x + TANH_CUBE * x ** 3));
    return [0.5 * (1 + t) * (1 + x * (1 - t) * TANH_SCALE * (1 + 3 * TANH_CUBE * x * x))];
  },
};

const clip: ScalarOp = {
  value: ([x = Number.NaN, low = Number.NEGATIVE_INFINITY, high = Number.POSITIVE_INFINITY]) =>
    Math.min(Math.max(x, low), high),
  partials: ([x = Number.NaN, low = Number.NEGATIVE_INFINITY, high = Number.POSITIVE_INFINITY]) => [
    only(!(x < low || x > high)),
    only(x < low && low < high),
    only(x > high || high < low),
  ],
};

const where: ScalarOp = {
  value: ([condition, x = Number.NaN, y = Number.NaN]) => (condition ? x : y),
  partials: ([condition]) => [null, only(Boolean(condition)), only(!condition)],
};

const affine: ScalarOp = {
  value: ([x = Number.NaN, w = Number.NaN, b = 0]) => x * w + b,
  partials: ([x = Number.NaN, w = Number.NaN]) => [w, x, 1],
};

function huber(args: readonly number[], delta: number): number {
  const size = Math.abs(arg(args, 0) - arg(args, 1));
  return size <= delta ? 0.5 * size * size : delta * (size - 0.5 * delta);
}

/** Logarithms of probabilities, bounded as the op table bounds them. */
const boundedLog: Unary = (logarithm) => Math.max(logarithm, -100);

const numberOr = (given: unknown, otherwise: number): number => (typeof given === "number" ? given : otherwise);

const huberOp: ScalarOp = {
  value: (args, attrs) => huber(args, numberOr(attrs.delta, 1)),
  partials: (args, _out, attrs) => {
    const delta = numberOr(attrs.delta, 1);
    const slope = Math.min(Math.max(arg(args, 0) - arg(args, 1), -delta), delta);
    return [slope, -slope];
  },
};

const identity = unary(
  (x) => x,
  () => 1,
);
const product = binary(
  (x, y) => x * y,
  (x, y) => [y, x],
);
const stopped = (value: Unary) => unary(value, () => null);
const compared = (holds: (x: number, y: number) => boolean) =>
  binary(
    (x, y) => Number(holds(x, y)),
    () => [null, null],
  );

/** By name in the op table. */
const OPS: { readonly [name: string]: ScalarOp } = {
  add: binary(
    (x, y) => x + y,
    () => [1, 1],
  ),
  subtract: binary(
    (x, y) => x - y,
    () => [1, -1],
  ),
  multiply: product,
  divide: binary(
    (x, y) => x / y,
    (_x, y, out) => [1 / y, -out / y],
  ),
  negative: unary(
    (x) => -x,
    () => -1,
  ),
  reciprocal: unary(
    (x) => 1 / x,
    (_x, out) => -out * out,
  ),
  remainder: binary(modulo, (x, y) => [1, -Math.floor(x / y)]),
  floor_divide: binary(
    (x, y) => Math.floor(x / y),
    () => [null, null],
  ),

  pow: binary(
    (x, y) => x ** y,
    (x, y, out) => [powerInBase(x, y), x === 0 && y >= 0 ? 0 : out * Math.log(x)],
  ),
  square: unary(
    (x) => x * x,
    (x) => 2 * x,
  ),
  sqrt: unary(Math.sqrt, (_x, out) => 0.5 / out),
  rsqrt: unary(
    (x) => 1 / Math.sqrt(x),
    (_x, out) => -0.5 * out ** 3,
  ),
  hypot: binary(Math.hypot, (x, y, out) => (out === 0 ? [0, 0] : [x / out, y / out])),

  exp: unary(Math.exp, (_x, out) => out),
  expm1: unary(Math.expm1, (_x, out) => out + 1),
  log: unary(Math.log, (x) => 1 / x),
  log1p: unary(Math.log1p, (x) => 1 / (1 + x)),
  log2: unary(Math.log2, (x) => 1 / (x * Math.LN2)),
  log10: unary(Math.log10, (x) => 1 / (x * Math.LN10)),
  logaddexp: binary(
    (x, y) => (x === y ? x + Math.LN2 : Math.max(x, y) + Math.log1p(Math.exp(-Math.abs(x - y)))),
    (x, y) => (x === y ? [0.5, 0.5] : [logistic(x - y), logistic(y - x)]),
  ),
  xlogy: binary(
    (x, y) => (x === 0 ? 0 : x * Math.log(y)),
    (x, y) => [Math.log(y), x === 0 && y === 0 ? 0 : x / y],
  ),
  xlog1py: binary(
    (x, y) => (x === 0 ? 0 : x * Math.log1p(y)),
    (x, y) => [Math.log1p(y), x === 0 ? 0 : x / (1 + y)],
  ),

  sin: unary(Math.sin, Math.cos),
  cos: unary(Math.cos, (x) => -Math.sin(x)),
  tan: unary(Math.tan, (_x, out) => 1 + out * out),
  asin: unary(Math.asin, (x) => 1 / Math.sqrt((1 - x) * (1 + x))),
  acos: unary(Math.acos, (x) => -1 / Math.sqrt((1 - x) * (1 + x))),
  atan: unary(Math.atan, (x) => 1 / (1 + x * x)),
  atan2: binary(Math.atan2, (y, x) => {
    const square = x * x + y * y;
    return [x / square, -y / square];
  }),
  sinh: unary(Math.sinh, Math.cosh),
  cosh: unary(Math.cosh, Math.sinh),
  tanh: unary(Math.tanh, (_x, out) => 1 - out * out),
  asinh: unary(Math.asinh, (x) => 1 / Math.hypot(x, 1)),
  acosh: unary(Math.acosh, (x) => 1 / (Math.sqrt(x - 1) * Math.sqrt(x + 1))),
  atanh: unary(Math.atanh, (x) => 1 / ((1 - x) * (1 + x))),

  sigmoid: unary(logistic, (_x, out) => out * (1 - out)),
  relu: unary(
    (x) => Math.max(x, 0),
    (_x, out) => only(out > 0),
  ),
  gelu,

  erf: unary(erf, (x) => (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x)),
  erfc: unary(erfc, (x) => (-2 / Math.sqrt(Math.PI)) * Math.exp(-x * x)),
  ndtr: unary(normal, bell),

  maximum: extreme(Math.max, (x, y) => x < y),
  minimum: extreme(Math.min, (x, y) => x > y),
  clip,
  where,
  abs: unary(Math.abs, (x) => Math.sign(x)),
  sign: stopped(Math.sign),
  copysign: binary(
    (x, y) => (Math.sign(y) < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x)),
    (x, _y, out) => [Math.sign(x) * Math.sign(out), null],
  ),
  floor: stopped(Math.floor),
  ceil: stopped(Math.ceil),
  trunc: stopped(Math.trunc),
  round: stopped(roundHalfEven),

  equal: compared((x, y) => x === y),
  not_equal: compared((x, y) => x !== y),
  less: compared((x, y) => x < y),
  less_equal: compared((x, y) => x <= y),
  greater: compared((x, y) => x > y),
  greater_equal: compared((x, y) => x >= y),
  logical_and: compared((x, y) => x !== 0 && y !== 0),
  logical_or: compared((x, y) => x !== 0 || y !== 0),
  logical_xor: compared((x, y) => (x !== 0) !== (y !== 0)),
  logical_not: stopped((x) => Number(x === 0)),
  isnan: stopped((x) => Number(Number.isNaN(x))),
  isinf: stopped((x) => Number(Math.abs(x) === Number.POSITIVE_INFINITY)),
  isfinite: stopped((x) => Number(Number.isFinite(x))),

  signbit: stopped((x) => Number(x < 0 || Object.is(x, -0))),

  stop_gradient: stopped((x) => x),
  scale_gradient: binary(
    (x) => x,
    (_x, scale) => [scale, null],
  ),
  straight_through: binary(
    (hard) => hard,
    () => [null, 1],
  ),

  mse: binary(
    (x, y) => (x - y) ** 2,
    (x, y) => [2 * (x - y), -2 * (x - y)],
  ),
  huber: huberOp,
  binary_cross_entropy_logits: binary(
    (x, y) => softplus(x) - x * y,
    (x, y) => [logistic(x) - y, -x],
  ),
  binary_cross_entropy: binary(
    (p, y) => -(y * boundedLog(Math.log(p)) + (1 - y) * boundedLog(Math.log1p(-p))),
    (p, y) => [(p - y) / Math.max(p * (1 - p), 1e-12), boundedLog(Math.log1p(-p)) - boundedLog(Math.log(p))],
  ),
  linear: affine,
  // Products and sums of one element.
  matmul: product,
  matvec: product,
  vecmat: product,
  dot: product,
  l2_norm: unary(Math.abs, Math.sign),
};

/** On one element these change where it stands or what it is called, never what it is. */
const MOVES: ReadonlySet<string> = new Set([
  "alias",
  "positive",
  "copy",
  "cast",
  "real",
  "conj",
  "checkpoint_name",
  "reshape",
  "squeeze",
  "expand_dims",
  "permute",
  "broadcast",
  "flip",
  "roll",
  "concat",
  "stack",
  "slice",
  "index",
  "gather",
  "repeat",
  "tile",
  "diagonal",
  "sum",
  "mean",
  "prod",
  "max",
  "min",
  "logsumexp",
  "cumulative_sum",
]);

export function scalarOp(name: string): ScalarOp | null {
  if (MOVES.has(name)) return identity;
  return Object.hasOwn(OPS, name) ? (OPS[name] as ScalarOp) : null;
}
