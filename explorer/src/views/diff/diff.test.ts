import { describe, expect, it } from "vitest";
import { pair } from "../../fixtures/pair";
import { Sketch } from "../../fixtures/sketch";
import { modelOf } from "../../trace/model";
import type { TraceDiff } from "../../trace/types";
import { commonLayout, sideOf } from "./side";
import { pairNumbers, sortedPairs } from "./numbers";
import { unionOf } from "./union";

const trace = pair();
const { other, edits } = trace.diff as TraceDiff;
const [a, b] = [modelOf(trace), modelOf(other)];

describe("two graphs as one", () => {
  const union = unionOf(a, b, edits);

  it("holds what both have once, and what one has marked", () => {
    const count = (change: string) => union.nodes.filter((n) => n.change === change).length;
    expect([count("same"), count("changed"), count("added"), count("removed")]).toEqual([5, 1, 1, 1]);
    expect(new Set(union.nodes.filter((n) => n.a >= 0).map((n) => n.a)).size).toBe(a.nodes);
    expect(new Set(union.nodes.filter((n) => n.b >= 0).map((n) => n.b)).size).toBe(b.nodes);
  });

  it("knows of each edge on which side it is", () => {
    expect(union.edges.filter((e) => e.inA)).toHaveLength(a.edges);
    expect(union.edges.filter((e) => e.inB)).toHaveLength(b.edges);
  });

  it("draws what both have at the same places", () => {
    const common = commonLayout(a, b, union);
    const sides = [sideOf(a, common, "a", -1), sideOf(b, common, "b", -1)] as const;
    expect(sides[0].rows).toHaveLength(a.nodes);
    expect(sides[1].rows).toHaveLength(b.nodes);
    const place = (side: (typeof sides)[number], row: number) =>
      side.list.hits.find((hit) => hit.target.kind === "item" && hit.target.item === side.rows.indexOf(row))?.box;
    // Each at a place of its own.
    expect(new Set(sides[0].rows.map((row) => `${place(sides[0], row)?.x} ${place(sides[0], row)?.y}`)).size).toBe(a.nodes);
    for (const [row, node] of union.nodes.entries()) {
      if (node.a < 0 || node.b < 0) continue;
      const [left, right] = [place(sides[0], row), place(sides[1], row)];
      expect(left).toBeDefined();
      expect(left?.x).toBe(right?.x);
      expect(left?.y).toBe(right?.y);
    }
  });

  it("leaves out what is far from any change in a large graph", () => {
    const long = (n: number) => {
      const g = new Sketch("long");
      let x = g.leaf(0, "input", "x", [4]);
      for (let i = 0; i < n; i++) x = g.op(0, "exp", [x], [4]);
      g.op(0, "sum", [x], []);
      return modelOf(g.trace());
    };
    const shown = unionOf(long(400), long(400), [{ kind: "changed", a: 200, b: 200, text: "" }]);
    expect(shown.nodes.map((n) => n.a)).toEqual([198, 199, 200, 201, 202]);
    expect(shown.hidden).toBe(402 - 5);
  });
});

it("numbers of pairs: the largest difference first, NaN before all", () => {
  const g = new Sketch("two");
  const x = g.leaf(0, "param", "x", [4]);
  g.op(0, "exp", [x], [4]);
  g.op(0, "sum", [x + 1], []);
  const model = modelOf(g.trace(1));
  const slow = modelOf({ ...model.trace, events: { ...model.trace.events, dur: model.trace.events.dur.map((d, k) => d + k) } });
  const diff = { other: slow.trace, edits: [], pairs: { a: [0, 1, 2], b: [0, 1, 2], value: [0.5, "nan" as const, 0], gradient: [null, 1e-7, 2] } };
  const rows = pairNumbers(model, slow, diff);
  expect(sortedPairs(rows, "value").map(({ a }) => a)).toEqual([1, 0]);
  expect(sortedPairs(rows, "gradient").map(({ a }) => a)).toEqual([2, 1]);
  expect(sortedPairs(rows, "order").length).toBe(3);
  expect(sortedPairs(rows, "memory")).toEqual([]);
  for (const { micros } of sortedPairs(rows, "time")) expect(micros[1]).toBeGreaterThan(micros[0]);
});
