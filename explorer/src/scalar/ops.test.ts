import fc from "fast-check";
import { expect, test } from "vitest";
import golden from "../fixtures/scalars.json";
import { num } from "../trace/decode";
import type { Formula, Num } from "../trace/types";
import { formulaOp } from "./formula";
import { scalarOp, type Attributes, type ScalarOp } from "./ops";
import { erf, erfc } from "./special";

interface Row {
  op: string;
  args: Num[];
  attrs: Attributes;
  formula?: Formula;
  value: Num;
  slopes: Num[];
}

/** Without a plain formula: a graph that holds one of these is not run again in the page. */
const SPECIAL: ReadonlySet<string> = new Set([
  "betainc",
  "betainc_slope",
  "betaln",
  "digamma",
  "erfinv",
  "gamma_ratio",
  "gammainc",
  "gammaincc",
  "hurwitz_zeta",
  "i0e",
  "i1e",
  "imag",
  "lgamma",
  "log_ndtr",
  "ndtri",
  "nextafter",
  "polygamma",
]);

function close(a: number, b: number): boolean {
  return Object.is(a, b) || Math.abs(a - b) <= 1e-12 * Math.max(1, Math.abs(a), Math.abs(b));
}

test("values and slopes are the engine's, for every op of the table that has a plain formula", () => {
  const wrong: unknown[] = [];
  for (const row of golden as Row[]) {
    const op = row.formula === undefined ? scalarOp(row.op) : formulaOp(row.formula);
    if (op === null) {
      if (!SPECIAL.has(row.op)) wrong.push(row.op);
      continue;
    }
    const args = row.args.map(num);
    const value = op.value(args, row.attrs);
    const slopes = args.map((_, i) => op.partials(args, value, row.attrs)[i] ?? 0);
    if (!close(value, num(row.value)) || !slopes.every((slope, i) => close(slope, num(row.slopes[i] as Num)))) {
      wrong.push({ ...row, here: { value, slopes } });
    }
  }
  expect(wrong).toEqual([]);
});

/** Ops of one and two arguments that are smooth where the numbers below are drawn from. */
const SMOOTH: readonly (readonly [string, number])[] = [
  ["add", 2],
  ["subtract", 2],
  ["multiply", 2],
  ["divide", 2],
  ["negative", 1],
  ["reciprocal", 1],
  ["pow", 2],
  ["square", 1],
  ["sqrt", 1],
  ["rsqrt", 1],
  ["hypot", 2],
  ["exp", 1],
  ["expm1", 1],
  ["log", 1],
  ["log1p", 1],
  ["log2", 1],
  ["log10", 1],
  ["logaddexp", 2],
  ["xlogy", 2],
  ["xlog1py", 2],
  ["sin", 1],
  ["cos", 1],
  ["atan", 1],
  ["atan2", 2],
  ["sinh", 1],
  ["cosh", 1],
  ["tanh", 1],
  ["asinh", 1],
  ["sigmoid", 1],
  ["gelu", 1],
  ["erf", 1],
  ["erfc", 1],
  ["ndtr", 1],
  ["mse", 2],
  ["huber", 2],
  ["linear", 3],
  ["binary_cross_entropy_logits", 2],
];

test("slopes are what the difference quotient says", () => {
  const numbers = fc.double({ min: 0.1, max: 4, noNaN: true });
  fc.assert(
    fc.property(fc.constantFrom(...SMOOTH), fc.tuple(numbers, numbers, numbers), ([name, arity], drawn) => {
      const op = scalarOp(name) as ScalarOp;
      const args = drawn.slice(0, arity);
      const slopes = op.partials(args, op.value(args, {}), {});
      args.forEach((x, i) => {
        const at = (moved: number) => op.value(args.with(i, moved), {});
        const h = 1e-5 * x;
        const quotient = (at(x + h) - at(x - h)) / (2 * h);
        // The quotient's own error: rounding of the values over the step.
        const error = 1e-5 * (1 + Math.abs(quotient)) + (1e-15 * Math.abs(at(x))) / h;
        expect(Math.abs((slopes[i] ?? 0) - quotient)).toBeLessThan(error);
      });
    }),
    { numRuns: 600 },
  );
});

test("the error function, against known values", () => {
  expect(erf(0.5)).toBeCloseTo(0.5204998778130465, 15);
  expect(erf(-1)).toBeCloseTo(-0.8427007929497149, 15);
  expect(erfc(2.5) / 0.000406952017444959).toBeCloseTo(1, 12);
  expect(erfc(5) / 1.5374597944280349e-12).toBeCloseTo(1, 12);
  expect(erfc(-30)).toBe(2);
});
