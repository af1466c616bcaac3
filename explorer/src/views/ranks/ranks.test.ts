import { describe, expect, it } from "vitest";
import type { Ranks } from "../../trace/types";
import { beside, longest, partAt, rowOf, timelineOf, totals } from "./lanes";

/** Two lanes; in the first a sum moves while something is computed, and is waited for. */
const RANKS: Ranks = {
  mesh: "Mesh(pipe=2)",
  micros: 100,
  lanes: [
    { ranks: "0", memory: 10 },
    { ranks: "1", memory: 20 },
  ],
  lane: [0, 0, 0, 0, 1],
  kind: [0, 1, 0, 2, 0],
  label: ["gemm", "all_reduce over data", "loop", "wait for all_reduce", "gemm"],
  start: [0, 20, 20, 50, 0],
  end: [20, 100, 50, 100, 30],
  moved: [0, 64, 0, 0, 0],
  nodes: [[0], [1], [2], [1], [0]],
};

describe("the lanes of ranks", () => {
  it("add up, each for itself", () => {
    expect(totals(RANKS)).toEqual([
      { ranks: "0", memory: 10, computing: 50, moving: 80, waiting: 50, moved: 64, micros: 100 },
      { ranks: "1", memory: 20, computing: 30, moving: 0, waiting: 0, moved: 0, micros: 30 },
    ]);
  });

  it("have a row for what moves below what ranks do", () => {
    expect([...timelineOf(RANKS).lane]).toEqual([0, 1, 0, 0, 2]);
    expect(rowOf(3, 1)).toBe(7);
  });

  it("are pointed at by row and time", () => {
    expect(partAt(RANKS, 0, 60, 1)).toBe(3);
    expect(partAt(RANKS, 1, 60, 1)).toBe(1);
    expect(partAt(RANKS, 2, 60, 1)).toBe(-1);
    expect(partAt(RANKS, 2, 30.5, 1)).toBe(4);
  });

  it("are walked along by keys", () => {
    expect(beside(RANKS, -1, 1)).toBe(0);
    expect(beside(RANKS, 0, 1)).toBe(2);
    expect(beside(RANKS, 2, 1)).toBe(3);
    expect(beside(RANKS, 3, 1)).toBe(3);
    expect(beside({ ...RANKS, lane: [] }, -1, 1)).toBe(-1);
  });

  it("tell their longest parts first", () => {
    expect(longest(RANKS, 2)).toEqual([1, 3]);
  });
});
