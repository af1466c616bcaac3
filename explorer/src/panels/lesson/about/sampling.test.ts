import fc from "fast-check";
import { expect, test } from "vitest";
import { along, canBeDrawn, roundName, sample, stretchOf } from "./sampling";

const parabola = (x: number) => (2 * x - 3) ** 2 + 1;

test("the stretch holds the place and where the curve turns, which is found", () => {
  fc.assert(
    fc.property(fc.double({ min: -1, max: 4, noNaN: true }), (at) => {
      const [from, to] = stretchOf(parabola, at);
      expect(from).toBeLessThan(at);
      expect(at).toBeLessThan(to);
      const { turns } = sample(parabola, from, to);
      if (Math.abs(at - 1.5) > 0.1) {
        expect(turns).toHaveLength(1);
        expect(turns[0]).toBeCloseTo(1.5, 6);
      }
    }),
  );
});

test("a pole does not flatten the rest, and what is not finite is left out", () => {
  const { low, high } = sample((x) => 1 / x, -1, 1.01);
  expect(high).toBeLessThan(100);
  expect(Number.isFinite(low)).toBe(true);
  const { low: floor, high: ceiling } = sample(Math.log, -1, 3);
  expect([floor < 0, ceiling > 1]).toEqual([true, true]);
});

test("numbers are written as people do", () => {
  expect([4 / 3, -2 / 7, 0.25, 2, 0, Math.PI].map(roundName)).toEqual(["4/3", "−2/7", "0.25", "2", "0", "3.14"]);
});

test("what is no number, or too large for a stretch of numbers around it, is not drawn", () => {
  const drawn = (at: number, curve: (x: number) => number) =>
    canBeDrawn(at, sample(curve, ...stretchOf(curve, at)));
  expect(drawn(2, parabola)).toBe(true);
  expect(drawn(1e17, (x) => 3 * x)).toBe(true);
  expect(drawn(NaN, parabola)).toBe(false);
  expect(drawn(Infinity, (x) => x)).toBe(false);
  expect(drawn(1e308, (x) => 1.5 * x)).toBe(false);
});

test("a tangent is as long whatever its slope and the scales", () => {
  const numbers = fc.double({ noNaN: true, noDefaultInfinity: true });
  const scales = fc.double({ min: 1e-300, max: 1e300, noNaN: true });
  fc.assert(
    fc.property(numbers, scales, scales, (slope, across, up) => {
      const [x, y] = along(slope, across, up, 58);
      expect(Math.hypot(x, y)).toBeCloseTo(58, 6);
      expect(Math.sign(y) * Math.sign(slope)).not.toBe(-1);
    }),
  );
  expect(along(3, 2, 2, 1)[1] / along(3, 2, 2, 1)[0]).toBeCloseTo(3, 12);
});
