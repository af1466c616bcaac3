import fc from "fast-check";
import { expect, test } from "vitest";
import { roundName, sample, stretchOf } from "./sampling";

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
