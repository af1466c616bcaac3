import { expect, test } from "vitest";
import { ADD, MAXIMUM, MULTIPLY, SQUARE, SUBTRACT, traceOf, type NodeFixture, type OpFixture } from "../fixtures/graph";
import { learner } from "../fixtures/learner";
import { modelOf } from "../trace/model";
import { equationsOf, holds, localOf, numbersOf, plain, recordOf, shortened } from "./expression";
import { pieces } from "./template";

const model = modelOf(learner);
const shown = (value: number | null | undefined) => String(value).replace("-", "−");
const value = (node: number) => shown(model.trace.stats.value.scalar[node] as number);

function formulas(nodes: NodeFixture[]): string[] {
  const made = modelOf(traceOf(nodes));
  return equationsOf(made, made.nodes - 1).map((equation) => plain(equation.parts));
}

const leaf = (name: string, at = 2): NodeFixture => ({ name, kind: "input", value: at });
const node = (name: string, op: OpFixture, ...operands: string[]): NodeFixture => ({ name, kind: "op", op, operands });

test("the loss is written as it was computed", () => {
  expect(equationsOf(model, 8).map((equation) => plain(equation.parts))).toEqual(["(w · x + b − t)^2"]);
});

test("records and numbers", () => {
  expect([4, 5, 6, 7, 8, 0].map((row) => plain(recordOf(model, row)))).toEqual([
    "w · x",
    "v1 + b",
    "v2 − t",
    "v3^2",
    "v4",
    "x",
  ]);
  expect(plain(numbersOf(model, 4, value))).toBe("2 · 3");
  expect(plain(numbersOf(model, 7, () => "−2"))).toBe("(−2)^2");
});

test("local derivatives by name and by number", () => {
  expect(plain(localOf(model, 4, 0) ?? [])).toBe("x");
  expect(plain(localOf(model, 4, 0, value) ?? [])).toBe("3");
  expect(plain(localOf(model, 7, 0, value) ?? [])).toBe("2 · 2");
});

test("a negative result is bracketed where a local derivative raises it", () => {
  const tanh: OpFixture = {
    ...SQUARE,
    name: "tanh",
    form: "tanh({0})",
    precedence: 9,
    local: ["1 − {out}²"],
    literals: {},
  };
  const made = modelOf(traceOf([leaf("a"), { name: "y", kind: "op", op: tanh, operands: ["a"] }]));
  expect(plain(localOf(made, 1, 0, () => "−0.5") ?? [])).toBe("1 − (−0.5)^2");
  expect(plain(localOf(made, 1, 0) ?? [])).toBe("1 − y^2");
});

test("brackets stand where binding strength asks for them, and nowhere else", () => {
  const leaves = ["a", "b", "c"].map((name) => leaf(name));
  expect(formulas([...leaves, node("s", ADD, "b", "c"), node("p", MULTIPLY, "a", "s")])).toEqual(["a · (b + c)"]);
  expect(formulas([...leaves, node("s", SUBTRACT, "b", "c"), node("p", SUBTRACT, "a", "s")])).toEqual(["a − (b − c)"]);
  expect(formulas([...leaves, node("s", SUBTRACT, "a", "b"), node("p", SUBTRACT, "s", "c")])).toEqual(["a − b − c"]);
  expect(formulas([...leaves, node("s", MULTIPLY, "a", "b"), node("p", ADD, "c", "s")])).toEqual(["c + a · b"]);
  expect(formulas([...leaves, node("s", SQUARE, "a"), node("p", SQUARE, "s")])).toEqual(["(a^2)^2"]);
  expect(formulas([...leaves, node("s", ADD, "a", "b"), node("p", MAXIMUM, "s", "c")])).toEqual(["max(a + b, c)"]);
});

test("what is used twice is named and written once", () => {
  const nodes = [leaf("a"), leaf("b"), node("s", ADD, "a", "b"), node("p", MULTIPLY, "s", "s")];
  expect(formulas(nodes)).toEqual(["a + b", "s · s"]);
});

test("every node has its place in some formula", () => {
  const parts = equationsOf(model, 8).flatMap((equation) => equation.parts);
  for (let row = 0; row < 8; row++) expect(holds(parts, row)).toBe(true);
});

test("templates: raised, lowered, bracketed", () => {
  expect(pieces("{0}²")).toEqual(pieces("{0}^2"));
  expect(pieces("exp({0})^(−{1})")).toEqual([
    { kind: "text", text: "exp(" },
    { kind: "hole", slot: 0, bracketed: true },
    { kind: "text", text: ")" },
    {
      kind: "raised",
      pieces: [
        { kind: "text", text: "−" },
        { kind: "hole", slot: 1, bracketed: true },
      ],
    },
  ]);
  expect(pieces("1 − {out}²")[1]).toEqual({ kind: "hole", slot: -1, bracketed: false });
});

test("paths lose the beginning that tells nothing apart, and never all but a number", () => {
  expect(shortened(["model.hidden.weight", "model.out.weight", "model.out.bias", "x", "model.hidden.weight"])).toEqual([
    "hidden.weight",
    "out.weight",
    "bias",
    "x",
    "hidden.weight",
  ]);
  expect(shortened(["net.layers[0].w[0]", "net.layers[1].w[0]", "net.blocks.0.q", "net.blocks.1.q"])).toEqual([
    "layers[0].w[0]",
    "layers[1].w[0]",
    "blocks.0.q",
    "blocks.1.q",
  ]);
  // The end of one is a name of its own.
  expect(shortened(["model.w", "w"])).toEqual(["model.w", "w"]);
});
