import { describe, expect, it } from "vitest";
import type { Batched } from "../../trace/types";
import { emptyTrace } from "../../trace/empty";
import { modelOf, onlyTab } from "../../trace/model";
import { barOf, batchedSums, cellTotals, mostRows, toldWays } from "./batched";

/** Two runs: leaves, nodes twice, then leaves again. */
const BATCHED: Batched = {
  ways: ["depth", "agenda"],
  run: [0, 0, 0, 1],
  cell: [0, 1, 1, 0],
  cells: ["Leaf", "Node"],
  calls: [7, 6, 3, 1],
  rows: [8, 6, 4, 1],
  gathered: [1, 2, 0, 1],
  sliced: [0, 0, 2, 0],
  left: [],
};

describe("what ran together", () => {
  it("is added up by cells, those with most calls first", () => {
    expect(cellTotals(BATCHED)).toEqual([
      { cell: 1, name: "Node", calls: 9, kernels: 2, most: 6 },
      { cell: 0, name: "Leaf", calls: 8, kernels: 2, most: 7 },
    ]);
    expect(batchedSums(BATCHED)).toEqual({ calls: 17, rows: 19, gathered: 4, sliced: 2 });
  });

  it("has bars that are as long as kernels have rows", () => {
    expect(barOf(BATCHED, 0, mostRows(BATCHED))).toEqual({ calls: 7 / 8, filled: 1 / 8 });
    expect(barOf(BATCHED, 1, mostRows(BATCHED))).toEqual({ calls: 6 / 8, filled: 0 });
    expect(barOf(BATCHED, 2, mostRows(BATCHED))).toEqual({ calls: 3 / 8, filled: 1 / 8 });
  });

  it("says by which ways", () => {
    expect(toldWays(BATCHED)).toBe("2 runs, by agenda and depth");
    expect(toldWays({ ...BATCHED, ways: ["depth"] })).toBe("1 run, by depth");
    expect(toldWays({ ...BATCHED, ways: [] })).toBe("0 runs");
  });

  it("has one tab", () => {
    const trace = emptyTrace("batching");
    expect(onlyTab(modelOf(trace))).toBe(null);
    expect(onlyTab(modelOf({ ...trace, batching: BATCHED }))).toBe("parallel");
  });
});
