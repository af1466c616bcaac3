import fc from "fast-check";
import { expect, test } from "vitest";
import { ROW, scrolledTo, visibleRows } from "./rows";

const places = fc.record({
  rows: fc.integer({ min: 1, max: 60000 }),
  height: fc.integer({ min: 4 * ROW, max: 3000 }),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
});

test("every row on screen is made, and few others", () => {
  fc.assert(
    fc.property(places, ({ rows, height, at }) => {
      const scroll = at * Math.max(0, rows * ROW - height);
      const { first, end } = visibleRows(scroll, height, rows);
      expect(first * ROW).toBeLessThanOrEqual(scroll);
      expect(Math.min(rows * ROW, scroll + height)).toBeLessThanOrEqual(end * ROW);
      expect(end - first).toBeLessThanOrEqual(height / ROW + 20);
    }),
  );
});

test("a row that is scrolled to is seen, and one that is seen stays where it is", () => {
  fc.assert(
    fc.property(places, fc.nat(60000), ({ rows, height, at }, wanted) => {
      const row = wanted % rows;
      const scroll = at * Math.max(0, rows * ROW - height);
      const there = scrolledTo(row, scroll, height);
      expect(there).toBeLessThanOrEqual(row * ROW);
      expect((row + 1) * ROW).toBeLessThanOrEqual(there + height);
      expect(scrolledTo(row, there, height)).toBe(there);
    }),
  );
});
