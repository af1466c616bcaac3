import { expect, it } from "vitest";
import { SURVEY } from "../draw/folded_looks";
import { pictureOf } from "../draw/picture";
import { Sketch } from "../fixtures/sketch";
import { plain, recordOf } from "../formula/expression";
import { modelOf } from "../trace/model";
import { stripOf } from "../views/survey/strip";
import { edgeLooks } from "../views/survey/looks";
import { copiesInto, recordsOf, seenIn } from "./copies";

function sums(line: number) {
  const g = new Sketch("sums");
  const [x, b] = [g.leaf(0, "input", "x", [8, 4]), g.leaf(0, "param", "b", [4])];
  const s = g.scope(0, "layer");
  const copy = g.op(s, "broadcast", [b], [8, 4], line);
  const sum = g.op(s, "add", [x, copy], [8, 4], 2);
  g.op(s, "relu", [sum], [8, 4], 3);
  return { model: modelOf(g.trace(1)), b, copy, sum, layer: s };
}

it("copies that nobody wrote are signs on an edge: no box, no column, no record of their own", () => {
  const { model, b, copy, sum, layer } = sums(2);
  expect(seenIn(model, copy)).toBe(sum);
  expect(Array.from(recordsOf(model))).not.toContain(copy);
  expect(copiesInto(model, sum)).toEqual([{ from: b, copy }]);
  expect(plain(recordOf(model, sum))).toContain("b");
  expect(plain(recordOf(model, sum))).not.toMatch(/v\d/);
  const picture = pictureOf(model, { open: new Set([layer]), within: layer, metrics: SURVEY, inlineCopies: true });
  expect(picture.graph.items.some((item) => item.kind === "node" && item.node === copy)).toBe(false);
  const scenery = { cursor: model.events, selection: null, hover: null, born: new Map<number, string>(), lit: new Set<number>() };
  expect(edgeLooks(model, picture, scenery).filter(({ sign }) => sign === "⇉").length).toBe(1);
  // What is copied is chosen with its edge.
  expect(edgeLooks(model, picture, { ...scenery, selection: { kind: "node", row: copy } }).filter(({ selected }) => selected).length).toBe(1);
  expect(stripOf(model).columnOf[copy]).toBe(stripOf(model).columnOf[sum]);
});

it("those that are written stay nodes", () => {
  const { model, copy, layer } = sums(1);
  expect(seenIn(model, copy)).toBe(copy);
  expect(Array.from(recordsOf(model))).toContain(copy);
  const picture = pictureOf(model, { open: new Set([layer]), within: layer, metrics: SURVEY, inlineCopies: true });
  expect(picture.graph.items.some((item) => item.kind === "node" && item.node === copy)).toBe(true);
});
