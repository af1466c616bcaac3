import { describe, expect, it } from "vitest";
import { Sketch } from "../fixtures/sketch";
import { pictureOf, type Picture } from "../draw/picture";
import { SURVEY } from "../draw/folded_looks";
import { modelOf, type Model } from "../trace/model";
import { busOf } from "./bus";

const edges = (...pairs: [number, number][]) => pairs.map(([from, to]) => ({ from, to }));

describe("the bus", () => {
  it("runs through sums whose other operand is computed from the same value", () => {
    // 0 → 1 → 2 (+), with 0 → 2 past it; then 2 → 3 → 4 (+) with 2 → 4.
    const wires = edges([0, 1], [0, 2], [1, 2], [2, 3], [2, 4], [3, 4], [4, 5]);
    expect(busOf(6, wires, (v) => v === 2 || v === 4)).toEqual([1, 4, 6]);
  });

  it("is none where nothing goes past, or what meets is not added", () => {
    const wires = edges([0, 1], [0, 2], [1, 2]);
    expect(busOf(3, wires, () => false)).toEqual([]);
    expect(busOf(3, edges([0, 2], [1, 2]), (v) => v === 2)).toEqual([]);
  });

  it("passes what stands between two sums, and is none in a graph with cycles", () => {
    const wires = edges([0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]);
    expect(busOf(6, wires, (v) => v === 2 || v === 5)).toEqual([2, 3, 6]);
    expect(busOf(3, edges([0, 1], [1, 2], [0, 2], [2, 0]), () => true)).toEqual([]);
  });
});

/** Blocks that each add to what they are given. */
function residual(blocks: number): { model: Model; layers: number[] } {
  const g = new Sketch("residual");
  let x = g.leaf(0, "input", "x", [8, 4]);
  x = g.op(0, "exp", [x], [8, 4]);
  const layers: number[] = [];
  for (let i = 0; i < blocks; i++) {
    const s = g.scope(0, `block ${i}`);
    layers.push(s);
    let y = x;
    for (let k = 0; k < 12; k++) y = g.op(s, k % 2 ? "relu" : "exp", [y], [8, 4]);
    x = g.op(s, "add", [x, y], [8, 4]);
  }
  g.op(0, "sum", [x], []);
  return { model: modelOf(g.trace(1)), layers };
}

const drawn = (model: Model, within: number, wrapWidth: number): Picture =>
  pictureOf(model, { open: new Set([within]), within, metrics: SURVEY, hideConstants: true, inlineCopies: true, wrapWidth, wrapStrictly: true, bus: true });

describe("a block with a bus", () => {
  const { model, layers } = residual(3);
  const middle = layers[1] as number;

  it("has it straight above everything else, from port to port", () => {
    const { graph, layout } = drawn(model, middle, 5000);
    const kinds = graph.items.map((item) => item.kind);
    const [entering, leaving] = [graph.items.findIndex((item) => item.entering === true), graph.items.findIndex((item) => item.entering === false)];
    const sum = graph.items.findIndex((item) => item.node === graph.items[leaving]?.node && item.kind === "node");
    expect(kinds.filter((kind) => kind === "port").length).toBe(2);
    const centre = (i: number) => layout.boxes[i]!.y + layout.boxes[i]!.height / 2;
    expect(centre(sum)).toBe(centre(entering));
    expect(centre(leaving)).toBe(centre(entering));
    graph.items.forEach((_, i) => [entering, leaving, sum].includes(i) || expect(layout.boxes[i]!.y).toBeGreaterThan(centre(entering)));
    const xs = layout.boxes.map((box) => box.x);
    expect(Math.min(...xs)).toBe(xs[entering]);
    expect(Math.max(...xs)).toBe(xs[leaving]);
  });

  it.each([360, 500, 800])("goes on in new rows that are no wider than %i", (width) => {
    const { layout, graph } = drawn(model, middle, width);
    expect(layout.bounds.width).toBeLessThanOrEqual(1.2 * width);
    expect(layout.bounds.height).toBeGreaterThan(drawn(model, middle, 5000).layout.bounds.height);
    // No row is a border alone.
    const leaving = graph.items.findIndex((item) => item.entering === false);
    const beside = layout.boxes.filter((box) => Math.abs(box.y - layout.boxes[leaving]!.y) < 40);
    expect(beside.length).toBeGreaterThan(1);
  });
});
