import { expect, test } from "vitest";
import document from "../../fixtures/tensors.json";
import { detailsOf, modelOf, nameOf } from "../../trace/model";
import type { Trace } from "../../trace/types";
import { placeOf, shareOf, shownPart, shownShare, shownSteps, tensorPathsOf, turnOf, type TensorSummary } from "./tensor_paths";

// A recording of: h = tanh(x @ W + b); result = ((h + h * b) ** 2).mean(), x of 2 x 2, W of 2 x 3, b of 3 elements.
const model = modelOf(document as unknown as Trace);
const named = (name: string) => Array.from({ length: model.nodes }, (_, node) => nameOf(model, node)).indexOf(name);

function paths(name: string): TensorSummary {
  const found = tensorPathsOf(model, named(name));
  if (found === null) throw new Error(`no paths from ${name}`);
  return found;
}

test("a path leads from its node to the result, edge by edge", () => {
  const root = model.trace.meta.roots[0];
  for (const name of ["x", "W", "b", "h"]) {
    const found = paths(name);
    expect(found.to).toBe(root);
    expect(found.paths.length).toBe(found.count);
    for (const { edges } of found.paths) {
      expect(model.src[edges[0] as number]).toBe(named(name));
      expect(model.dst[edges.at(-1) as number]).toBe(root);
      edges.slice(1).forEach((edge, i) => expect(model.src[edge]).toBe(model.dst[edges[i] as number]));
    }
  }
});

test("contributions add up to the gradient, and so do the parts of every element", () => {
  for (const name of ["x", "W", "b", "h"]) {
    const found = paths(name);
    expect(found.equal).toBe(true);
    expect(found.gradient).toEqual(detailsOf(model, named(name), true)?.values);
    const gradient = found.gradient ?? [];
    expect(gradient.length).toBeGreaterThan(1);
    gradient.forEach((whole, element) => {
      const sum = found.paths.reduce((total, path) => total + (path.values?.[element] ?? Number.NaN), 0);
      expect(sum).toBeCloseTo(whole, 5);
      const shares = found.paths.reduce((total, path) => total + (shareOf(path, gradient, element) ?? 0), 0);
      expect(shares).toBeCloseTo(1, 3);
    });
    expect(found.paths.reduce((total, path) => total + (path.share ?? 0), 0)).toBeCloseTo(1, 3);
  }
});

test("a bias that is used twice has a path for each use of what it goes into", () => {
  expect(paths("b").count).toBe(3);
  expect(paths("x").count).toBe(2);
});

test("results and constants have none", () => {
  expect(tensorPathsOf(model, model.nodes - 1)).toBeNull();
  const without = modelOf({ ...(document as unknown as Trace), paths: undefined as never });
  expect(tensorPathsOf(without, named("x"))).toBeNull();
});

test("others stand for the paths that are not told apart", () => {
  const table = structuredClone(model.trace.paths);
  if (table === undefined) throw new Error("no paths");
  const at = table.nodes.row.indexOf(named("x"));
  const second = (table.nodes.first[at] as number) + 1;
  table.nodes.shown[at] = 1;
  table.nodes.count[at] = 5;
  table.list.edge[second] = -1;
  const found = tensorPathsOf(modelOf({ ...model.trace, paths: table }), named("x"));
  expect(found?.paths.length).toBe(1);
  expect(found?.others?.edges).toEqual([]);
  expect((found?.others?.share ?? 0) + (found?.paths[0]?.share ?? 0)).toBeCloseTo(1, 3);
});

test("of long paths the steps are shown in which they differ", () => {
  const { paths: both } = paths("x");
  const [a, b] = both;
  if (a === undefined || b === undefined) throw new Error("two paths");
  expect(shownSteps(model, a, both, 20)).toEqual({ edges: a.edges.slice(0, -1), left: 0 });
  const longer = a.edges.length > b.edges.length ? a : b;
  const short = shownSteps(model, longer, both, 3);
  expect(short.edges.map((edge) => model.trace.ops.name[model.trace.nodes.op[model.dst[edge] as number] as number])).toEqual(
    ["multiply"],
  );
  expect(short.left).toBe(longer.edges.length - 2);
});

test("only an operand that is taken twice has a turn", () => {
  for (let edge = 0; edge < model.edges; edge++) expect(turnOf(model, edge)).toBe(0);
});

test("parts and places as they are written", () => {
  expect([0.613, -0.0234, 1, 1.33, -12, 0].map(shownShare)).toEqual(["61%", "−2.3%", "100%", "133%", "−12 times", "0%"]);
  expect([0.4, -12].map((share) => shownPart(share, "the sum"))).toEqual(["40% of the sum", "−12 times the sum"]);
  expect(placeOf([2, 3, 4], 17)).toBe("[1, 1, 1]");
  expect(placeOf([5], 3)).toBe("[3]");
});
