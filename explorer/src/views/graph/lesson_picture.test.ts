import { expect, test } from "vitest";
import type { DisplayList, TextItem } from "../../draw/display";
import { estimatedWidth } from "../../draw/text";
import { ADD, MULTIPLY, traceOf } from "../../fixtures/graph";
import { learner } from "../../fixtures/learner";
import { recompute } from "../../scalar/recompute";
import { recordedNumbers, type Numbers } from "../../state";
import { modelOf } from "../../trace/model";
import { FLAG } from "../../trace/types";
import { flowsAt, picture, stageOf, type Moment } from "./lesson_picture";

const model = modelOf(learner);
const stage = stageOf(model, estimatedWidth);
const moment: Moment = {
  numbers: recordedNumbers(model),
  cursor: 8,
  selected: -1,
  hovered: -1,
  selectedEdge: -1,
  moved: new Map(),
};

function texts(list: DisplayList, font: string): string[] {
  return list.items
    .flatMap((item) => (item.kind === "text" && item.font === font ? [(item as TextItem).text] : []))
    .sort();
}

test("numbers come with the clock: values at once, gradients one step after the other", () => {
  const at = (cursor: number) => texts(picture(stage, { ...moment, cursor }), "mono").join(" ");
  expect(at(0)).toBe("1 2 3 5");
  expect(at(4)).toBe("1 2 2 3 4 5 6 7");
  expect(at(5)).toBe("1 1 2 2 3 4 4 5 6 7");
  expect(at(8)).toBe("1 1 12 2 2 3 4 4 4 4 4 5 6 7 8 −4");
});

test("patterns stand above, and the loss starts with 1 once the way back has begun", () => {
  expect(texts(picture(stage, { ...moment, cursor: 4 }), "ui")).toEqual(["distribute", "distribute", "scale", "swap"]);
  expect(texts(picture(stage, { ...moment, cursor: 5 }), "ui")).toContain("starts with 1");
});

test("a moved leaf shows what it was, and everything after it is computed again", () => {
  const moved = new Map([[1, 3]]);
  const list = picture(stage, { ...moment, moved, numbers: recompute(model, moved) as Numbers });
  expect(texts(list, "ui")).toContain("was 2");
  expect(texts(list, "mono")).toEqual(expect.arrayContaining(["25", "30", "10"]));
});

test("the edges of the node at which something happens carry the flow", () => {
  expect(flowsAt(stage, 0)).toEqual([]);
  expect(flowsAt(stage, 1).map((flow) => flow.back)).toEqual([false, false]);
  expect(flowsAt(stage, 8).map((flow) => flow.back)).toEqual([true, true]);
});

test("edges between the same two nodes are one line with the sum of their gradients", () => {
  const twice = modelOf(
    traceOf([
      { name: "a", kind: "input", value: 3 },
      { name: "s", kind: "op", op: MULTIPLY, operands: ["a", "a"] },
      { name: "L", kind: "op", op: ADD, operands: ["s", "s"] },
    ]),
  );
  const list = picture(stageOf(twice, estimatedWidth), {
    ...moment,
    numbers: recordedNumbers(twice),
    cursor: 4,
  });
  expect(texts(list, "mono")).toEqual(expect.arrayContaining(["2", "12"]));
});

test("marks of NaN are those of the numbers shown, not of those that were recorded", () => {
  const broken = modelOf({ ...learner, nodes: { ...learner.nodes, flags: learner.nodes.flags.map((flags, row) => (row === 4 ? flags | FLAG.nanForward : flags)) } });
  const fills = (numbers: Numbers) => picture(stageOf(broken, estimatedWidth), { ...moment, numbers }).items.flatMap((item) => (item.kind === "path" && item.fill === "badFill" ? [item] : [])).length;
  const recorded = recordedNumbers(broken);
  const lost: Numbers = { ...recorded, value: (node) => (node === 4 ? Number.NaN : recorded.value(node)) };
  expect(fills(lost)).toBe(1);
  expect(fills(recompute(broken, new Map([[1, 3]])) as Numbers)).toBe(0);
});

test("a copy that nobody wrote is a mark on the edge, and no node", () => {
  const shapes = { b: [], x: [3], big: [3], sum: [3] };
  const trace = traceOf([
    { name: "b", kind: "param" },
    { name: "x", kind: "input" },
    { name: "big", kind: "op", op: { ...ADD, name: "broadcast", symbol: "⇉", form: "{0}" }, operands: ["b"] },
    { name: "sum", kind: "op", op: ADD, operands: ["x", "big"] },
  ]);
  trace.shapes = [[], [3]];
  trace.nodes.shape = trace.nodes.name.map((row) => ((shapes as Record<string, number[]>)[trace.strings[row] as string]?.length ? 1 : 0));
  trace.nodes.span = trace.nodes.op.map((op) => (op < 0 ? -1 : 0));
  const copied = stageOf(modelOf(trace), estimatedWidth);
  expect(copied.graph.items.map(({ node }) => node)).not.toContain(2);
  expect(copied.graph.edges.length).toBe(2);
  const list = picture(copied, { ...moment, cursor: 99, numbers: recordedNumbers(modelOf(trace)) });
  expect(texts(list, "ui")).toContain("copied → [3]");
  // Written out it has an expression of its own, and is a node.
  trace.nodes.span = trace.nodes.op.map((op, i) => (op < 0 ? -1 : i));
  expect(stageOf(modelOf(trace), estimatedWidth).graph.edges.length).toBe(3);
});

test("larger graphs have value and gradient inside their boxes", () => {
  const nodes = [
    { name: "a", kind: "param" as const, value: 2 },
    ...Array.from({ length: 60 }, (_, i) => ({ name: `s${i}`, kind: "op" as const, op: ADD, operands: [i === 0 ? "a" : `s${i - 1}`, "a"], value: i })),
  ];
  const large = modelOf(traceOf(nodes));
  const dense = stageOf(large, estimatedWidth);
  const list = picture(dense, { ...moment, cursor: large.events, numbers: recordedNumbers(large) });
  const there = texts(list, "mono").filter((text) => text !== "");
  expect(there.length).toBeGreaterThanOrEqual(large.nodes);
  expect(list.hits.every(({ target }) => target.kind !== "chip")).toBe(true);
});
