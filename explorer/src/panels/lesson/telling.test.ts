import { judged } from "./about/guess";
import { swiped } from "./narrator";
import { expect, test } from "vitest";
import { ADD, MULTIPLY, traceOf } from "../../fixtures/graph";
import { learner } from "../../fixtures/learner";
import sumsDocument from "../../fixtures/sums.json";
import { recordedNumbers } from "../../state";
import { parse } from "../../trace/decode";
import { modelOf, recordedAmount, recordedGradient, recordedSize, type Model } from "../../trace/model";
import { shownNumber } from "../../format";
import { keepingOf } from "./keeping";
import { hasGradient, hasHanded, hasValue } from "./progress";
import { plainTelling, tellingOf } from "./telling";

const model = modelOf(learner);
const told = (at: Model, cursor: number) => plainTelling(tellingOf(at, recordedNumbers(at), cursor));

test("every step of the lesson, in words", () => {
  expect(Array.from({ length: 9 }, (_, k) => told(model, k))).toEqual([
    "Only the leaves have values. Press space to play, → for one step.",
    "v1 is computed, and w and x are kept for the way back. v1 = w · x = 2 · 3 = 6",
    "v2 is computed; nothing needs to be kept. v2 = v1 + b = 6 + 1 = 7",
    "v3 is computed; nothing needs to be kept. v3 = v2 − t = 7 − 5 = 2",
    "v4 is computed, and v3 is kept for the way back. v4 = v3^2 = 2^2 = 4",
    "A power scales what arrives by its slope. With 1 arriving: ∂L/∂v3 = 1 × (2 · 2) = 4",
    "Subtraction copies what arrives, with the sign turned for what is taken away. " +
      "With 4 arriving: ∂L/∂v2 = 4 × 1 = 4 ∂L/∂t = 4 × (−1) = −4",
    "Addition copies what arrives to every input. With 4 arriving: ∂L/∂v1 = 4 × 1 = 4 ∂L/∂b = 4 × 1 = 4",
    "Multiplication hands each input the other one's value. With 4 arriving: ∂L/∂w = 4 × 3 = 12 ∂L/∂x = 4 × 2 = 8",
  ]);
});

test("where a value is used twice its gradients are added", () => {
  const twice = modelOf(
    traceOf([
      { name: "a", kind: "input", value: 3 },
      { name: "s", kind: "op", op: ADD, operands: ["a", "a"] },
      { name: "p", kind: "op", op: MULTIPLY, operands: ["s", "a"] },
      { name: "L", kind: "op", op: MULTIPLY, operands: ["p", "s"] },
    ]),
  );
  expect(told(twice, 4)).toContain("With 1 arriving: ∂L/∂p = 1 × 6 = 6 ∂L/∂s = 1 × 18 = 18 so far");
  expect(told(twice, 5)).toContain("∂L/∂s = 18 + 6 × 3 = 36 ∂L/∂a = 6 × 6 = 36 so far");
  expect(told(twice, 6)).toContain(
    "With 18 + 18 = 36 arriving: ∂L/∂a = 36 + 36 × 1 = 72 so far ∂L/∂a = 72 + 36 × 1 = 108",
  );
});

test("values and gradients are there once the clock has passed them", () => {
  expect([4, 8, 0].map((node) => hasValue(model, node, 0))).toEqual([false, false, true]);
  expect([4, 8].map((node) => hasValue(model, node, 4))).toEqual([true, true]);
  expect(hasGradient(model, 8, 4)).toBe(false);
  expect(hasGradient(model, 8, 5)).toBe(true);
  expect([1, 4].map((node) => hasGradient(model, node, 7))).toEqual([false, true]);
  expect(Array.from({ length: model.edges }, (_, edge) => hasHanded(model, edge, 6))).toEqual([
    false,
    false,
    false,
    false,
    true,
    true,
    true,
    true,
  ]);
});

test("what the tape holds after each event", () => {
  expect(keepingOf(model)).toEqual({ unit: "values", held: Float64Array.of(0, 2, 2, 2, 3, 2, 2, 2, 0), peak: 3 });
});

test("what is computed again is held from then, what it is computed from all the time", () => {
  const { events } = model.trace;
  const forward = events.node.slice(0, model.turn);
  const again = modelOf({
    ...model.trace,
    events: {
      ...events,
      node: [...forward, ...forward, ...events.node.slice(model.turn)],
      phase: [...forward.map(() => 0), ...forward.map(() => 3), ...forward.map(() => 1)],
    },
  });
  expect(Array.from(keepingOf(again).held)).toEqual([0, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 0]);
});

test("sentences have the numbers themselves, not the sizes that lines are drawn by", () => {
  const sums = modelOf(parse(JSON.stringify(sumsDocument)));
  const all = Array.from({ length: sums.events + 1 }, (_, k) => told(sums, k)).join(" ");
  const node = (name: string) => Array.from({ length: sums.nodes }, (_, n) => n).find((n) => sums.trace.strings[sums.trace.nodes.name[n] as number] === name) as number;
  const [b, x] = [node("b"), node("x")];
  // d/db is a sum over a tensor: a single number that has no slope.
  expect(recordedGradient(sums, b)).toBeCloseTo(-11.328, 3);
  expect(all).toContain(`∂loss/∂b = ${shownNumber(recordedGradient(sums, b) as number)}`.replace("loss", "result"));
  expect(all).toContain(`∂result/∂x [3], size ${shownNumber(recordedSize(sums, x, true) as number)}`);
  const sizes = [...all.matchAll(/size ([\d.e−]+)/g)].map((found) => found[1]);
  const known = [...Array.from({ length: sums.nodes }, (_, n) => recordedSize(sums, n, true)), ...Array.from({ length: sums.edges }, (_, e) => recordedAmount(sums, e))];
  const exact = known.filter((size) => size !== null).map((size) => shownNumber(size));
  expect(sizes.length).toBeGreaterThan(3);
  for (const size of sizes) expect(exact).toContain(size);
});

test("a guess is told what is wrong with it", () => {
  expect([12, 12.05, -12, 13, 2, 0].map((guess) => judged(guess, 12))).toEqual(["right", "right", "sign", "large", "small", "small"]);
  expect([0, 1].map((guess) => judged(guess, 0))).toEqual(["right", "large"]);
});

test("a swipe turns a page; what goes up or down is none", () => {
  expect([swiped(-80, 10), swiped(80, -20), swiped(-80, 70), swiped(10, 0), swiped(0, 200)]).toEqual([1, -1, 0, 0, 0]);
});
