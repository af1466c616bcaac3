import { describe, expect, it } from "vitest";
import { Sketch } from "../fixtures/sketch";
import { pictureOf } from "../draw/picture";
import { SURVEY } from "../draw/folded_looks";
import { modelOf, type Model } from "../trace/model";
import { loopsIn } from "../views/survey/looks";
import { statesOf, turnsOf } from "./recurrence";

/** Turns with two states: h = relu(h @ w + x), c = c * h. With `own` each has its own weights, as layers do. */
function turns(count: number, own: boolean): Model {
  const g = new Sketch("rnn");
  const x = g.leaf(0, "input", "x", [8, 4]);
  let [h, c] = [g.leaf(0, "input", "h", [8, 4]), g.leaf(0, "input", "c", [8, 4])];
  const shared = g.leaf(0, "param", "w", [4, 4]);
  for (let t = 0; t < count; t++) {
    const s = g.scope(0, `t = ${t}`, "iteration");
    const w = own ? g.leaf(s, "param", `w${t}`, [4, 4]) : shared;
    h = g.op(s, "relu", [g.op(s, "add", [g.op(s, "matmul", [h, w], [8, 4]), x], [8, 4])], [8, 4]);
    c = g.op(s, "mul", [c, h], [8, 4]);
  }
  g.op(0, "sum", [c], []);
  return modelOf(g.trace(1));
}

describe("a recurrence", () => {
  const model = turns(5, false);
  const scopes = model.childScopes[0] as number[];
  const ops = (scope: number, name: string) => (model.childNodes[scope] as number[]).find((n) => model.trace.ops.name[model.trace.nodes.op[n] as number] === name) as number;

  it("hands on its states, from turn to turn", () => {
    const [first, second, last] = [scopes[0] as number, scopes[1] as number, scopes[4] as number];
    const pairs = (s: number) => statesOf(model, s).map(({ entering, leaving }) => [entering, leaving]).sort((a, b) => a[1]! - b[1]!);
    expect(pairs(second)).toEqual([
      [ops(first, "relu"), ops(second, "relu")],
      [ops(first, "mul"), ops(second, "mul")],
    ]);
    expect(pairs(first)).toEqual([
      [1, ops(first, "relu")],
      [2, ops(first, "mul")],
    ]);
    expect(pairs(last)).toEqual([
      [ops(scopes[3] as number, "relu"), ops(last, "relu")],
      [ops(scopes[3] as number, "mul"), ops(last, "mul")],
    ]);
    expect(turnsOf(model, second)).toBe(5);
  });

  it("is drawn as loops from where a turn's states leave to where they come in", () => {
    const within = scopes[2] as number;
    const picture = pictureOf(model, { open: new Set([within]), within, metrics: SURVEY, hideConstants: true, bus: true });
    const loops = loopsIn(model, within, picture);
    expect(loops.length).toBe(2);
    for (const { from, to, label } of loops) {
      expect(picture.graph.items[from]?.entering).toBe(false);
      expect(picture.graph.items[to]?.entering).toBe(true);
      expect(label).toContain("5 turns");
    }
    const folded = pictureOf(model, { open: new Set(), metrics: SURVEY });
    expect(folded.nodes.filter(({ loop }) => loop === true).map(({ count }) => count)).toEqual(["× 5"]);
  });

  it("is none of layers, which have weights of their own", () => {
    const layers = turns(5, true);
    for (const s of layers.childScopes[0] as number[]) expect(statesOf(layers, s)).toEqual([]);
    expect(pictureOf(layers, { open: new Set(), metrics: SURVEY }).nodes.some(({ loop }) => loop === true)).toBe(false);
  });
});
