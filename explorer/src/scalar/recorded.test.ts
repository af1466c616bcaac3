/** Against runs that the engine recorded (`scripts/explorer_samples.py`): what the page computes is what was measured. */
import { describe, expect, it, test } from "vitest";
import decisionsDocument from "../fixtures/decisions.json";
import learnerDocument from "../fixtures/learner.json";
import mlpDocument from "../fixtures/mlp.json";
import { parse } from "../trace/decode";
import { dtypeOf, kindOf, modelOf, nameOf, recordedGradient, recordedSlope, recordedValue } from "../trace/model";
import { agree, pathsBetween } from "../views/paths/paths";
import { otherwise } from "./recompute";
import { nudge, programOf, run, type Program } from "./run";

const models = {
  learner: modelOf(parse(JSON.stringify(learnerDocument))),
  mlp: modelOf(parse(JSON.stringify(mlpDocument))),
};

/** The last digit that a document writes, and a few rounding errors for double precision. */
const shown = (dtype: string) => (dtype === "float32" ? 2 ** -24 : 1e-14);

test.each(Object.entries(models))("%s: run again here, every number is the recorded one", (_, model) => {
  const again = run(programOf(model) as Program, new Map());
  for (let node = 0; node < model.nodes; node++) {
    expect(agree(again.values[node] as number, recordedValue(model, node) as number, shown(dtypeOf(model, node)))).toBe(
      true,
    );
    const gradient = recordedGradient(model, node);
    if (gradient !== null) {
      expect(agree(again.gradients[node] ?? Number.NaN, gradient, shown(dtypeOf(model, node)))).toBe(true);
    }
  }
});

test.each(Object.entries(models))(
  "%s: sums over paths and difference quotients are the gradients of all leaves",
  (_, model) => {
    const program = programOf(model) as Program;
    const root = model.trace.meta.roots[0] as number;
    for (let node = 0; node < model.nodes; node++) {
      if (!["input", "param"].includes(kindOf(model, node))) continue;
      const gradient = recordedGradient(model, node) as number;
      const paths = pathsBetween(model, (edge) => recordedSlope(model, edge), node, root, 0);
      expect(agree(paths.sum ?? Number.NaN, gradient, paths.precision, paths.size)).toBe(true);
      const { value } = nudge(program, node, recordedValue(model, node) as number, new Map());
      expect(Math.abs(value - gradient)).toBeLessThan(1e-6 * Math.max(1, Math.abs(gradient)));
    }
  },
);

describe("a program that takes numbers out of its graph", () => {
  const model = modelOf(parse(JSON.stringify(decisionsDocument)));
  const node = (name: string) => Array.from({ length: model.nodes }, (_, n) => n).find((n) => nameOf(model, n) === name) as number;
  const after = (moved: [string, number][]) => {
    const places = new Map(moved.map(([name, value]) => [node(name), value]));
    return otherwise(model, places).map(({ what }) => what);
  };

  it("is what it was while they are what they were", () => {
    expect(after([])).toEqual([]);
    // b > 0 still holds.
    expect(after([["b", 0.5]])).toEqual([]);
    expect(after([["a", -2]])).toEqual([]);
  });

  it("may be another one where they are not", () => {
    expect(after([["b", -1]])).toEqual(["__bool__"]);
    expect(after([["a", 3]])).toEqual(["item"]);
    expect(after([["a", 3], ["b", -1]])).toEqual(["item", "__bool__"]);
  });
});
