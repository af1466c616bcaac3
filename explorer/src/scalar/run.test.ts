import { expect, test } from "vitest";
import { MAXIMUM, SQUARE, traceOf, type OpFixture } from "../fixtures/graph";
import { learner } from "../fixtures/learner";
import { modelOf } from "../trace/model";
import { programOf, nudge, run, type Program } from "./run";

const model = modelOf(learner);

test("the recorded numbers come out again", () => {
  const again = run(programOf(model) as Program, new Map());
  expect(again.values).toEqual([3, 2, 1, 5, 6, 7, 2, 4, 4]);
  expect(again.gradients).toEqual([8, 12, 4, -4, 4, 4, 4, 1, 1]);
});

test("a difference quotient that rounding drowns says so", () => {
  const { value, error } = nudge(programOf(model) as Program, 1, 1e9, new Map());
  expect(Math.abs(value - 2 * (3e9 + 1 - 5) * 3)).toBeLessThan(10 * error);
});

test("a moved leaf moves everything after it", () => {
  const again = run(programOf(model) as Program, new Map([[1, 3]]));
  expect(again.values[8]).toBe(25);
  expect(again.gradients[1]).toBe(30);
});

test("the difference quotient is the gradient", () => {
  const program = programOf(model) as Program;
  for (const [node, gradient] of [8, 12, 4, -4, 4, 4, 4].entries()) {
    const at = model.trace.stats.value.scalar[node] as number;
    expect(nudge(program, node, at, new Map()).value).toBeCloseTo(gradient, 8);
  }
});

test("the loser of a maximum has the gradient 0, also where an infinity arrives", () => {
  const steep: OpFixture = { ...SQUARE, name: "log", literals: {}, value: Math.log, slopes: (x = 0) => [1 / x] };
  const lost = modelOf(
    traceOf([
      { name: "a", kind: "input", value: 0 },
      { name: "b", kind: "input", value: -1 },
      { name: "m", kind: "op", op: MAXIMUM, operands: ["a", "b"] },
      { name: "L", kind: "op", op: steep, operands: ["m"] },
    ]),
  );
  const again = run(programOf(lost) as Program, new Map());
  expect(again.gradients).toEqual([Number.POSITIVE_INFINITY, 0, Number.POSITIVE_INFINITY, 1]);
  expect(again.slopes).toEqual([1, 0, Number.POSITIVE_INFINITY]);
});

test("a graph with an op that has no plain formula is refused, with the reason", () => {
  const odd: OpFixture = { ...SQUARE, name: "digamma", literals: {} };
  const graph = traceOf([
    { name: "a", kind: "input", value: 1 },
    { name: "L", kind: "op", op: odd, operands: ["a"] },
  ]);
  expect(programOf(modelOf(graph))).toEqual({ reason: "This page does not know how to compute digamma." });
});
