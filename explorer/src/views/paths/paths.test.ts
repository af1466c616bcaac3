import fc from "fast-check";
import { expect, test } from "vitest";
import { ADD, MULTIPLY, SUBTRACT, traceOf, type NodeFixture } from "../../fixtures/graph";
import { learner } from "../../fixtures/learner";
import { modelOf, recordedSlope, type Model } from "../../trace/model";
import { edgesAt } from "../../trace/model";
import { agree, pathsBetween, shownPaths } from "./paths";

const slopeOf = (model: Model) => (edge: number) => recordedSlope(model, edge);

test("the one path of the lesson", () => {
  const model = modelOf(learner);
  const found = pathsBetween(model, slopeOf(model), 1, 8, 10);
  expect(found.count).toBe(1);
  expect(found.sum).toBe(12);
  expect(found.best[0]?.edges.map(slopeOf(model))).toEqual([3, 1, 1, 4, 1]);
});

/** Every path, one by one: what the counting and the search must agree with. */
function enumerated(model: Model, from: number, to: number): number[] {
  if (from === to) return [1];
  return Array.from(edgesAt(model.consumers, from)).flatMap((edge) =>
    enumerated(model, model.dst[edge] as number, to).map((product) => product * (recordedSlope(model, edge) ?? 0)),
  );
}

const graphs = fc
  .array(fc.record({ op: fc.nat(2), a: fc.nat(100), b: fc.nat(100) }), { minLength: 1, maxLength: 9 })
  .map((steps) => {
    const nodes: NodeFixture[] = [
      { name: "x", kind: "input", value: 3 },
      { name: "y", kind: "input", value: -2 },
    ];
    for (const { op, a, b } of steps) {
      const operands = [a, b].map((at) => nodes[at % nodes.length]?.name as string);
      nodes.push({ name: `n${nodes.length}`, kind: "op", op: [ADD, SUBTRACT, MULTIPLY][op] ?? ADD, operands });
    }
    return modelOf(traceOf(nodes));
  });

test("count, sum and the largest agree with every path written out", () => {
  fc.assert(
    fc.property(graphs, (model) => {
      const to = model.nodes - 1;
      const all = enumerated(model, 0, to);
      const found = pathsBetween(model, slopeOf(model), 0, to, 5);
      expect(found.count).toBe(all.length);
      const sizes = all.map(Math.abs).sort((a, b) => b - a);
      expect(found.best.map((path) => Math.abs(path.product))).toEqual(sizes.slice(0, 5));
      const sum = all.reduce((a, b) => a + b, 0);
      const size = all.reduce((a, b) => a + Math.abs(b), 0);
      expect(agree(found.size, size, 1e-9)).toBe(true);
      expect(agree(found.sum ?? Number.NaN, sum, 1e-9, size)).toBe(true);
      const gradient = model.trace.stats.gradient.scalar[0];
      if (all.length > 0) expect(agree(found.sum ?? Number.NaN, gradient as number, 1e-9, size)).toBe(true);
    }),
  );
});

test("more paths than anybody could list are counted, and the largest still found", () => {
  const nodes: NodeFixture[] = [{ name: "n0", kind: "input", value: 1 }];
  for (let k = 1; k <= 200; k++)
    nodes.push({ name: `n${k}`, kind: "op", op: ADD, operands: [`n${k - 1}`, `n${k - 1}`] });
  const model = modelOf(traceOf(nodes));
  const found = pathsBetween(model, slopeOf(model), 0, 200, 3);
  expect(found.count).toBe(2 ** 200);
  expect(found.sum).toBe(2 ** 200);
  expect(found.best.map((path) => path.product)).toEqual([1, 1, 1]);
});

test("numbers of paths that nobody could read are rounded", () => {
  expect([1, 12345, 2 ** 200].map(shownPaths)).toEqual(["1", "12,345", "1.61 · 10⁶⁰"]);
});
