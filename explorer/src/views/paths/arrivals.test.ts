import { expect, it } from "vitest";
import { transformer } from "../../fixtures/transformer";
import { edgesAt, modelOf } from "../../trace/model";
import { arrivalsAt, mainWay } from "./arrivals";

const model = modelOf(transformer({ blocks: 3, heads: 4, broken: -1, extra: 1 }));
const root = model.trace.meta.roots[0] as number;

it("the ways in are a node's own edges, the largest first", () => {
  let several = 0;
  for (let node = 0; node < root; node++) {
    const found = arrivalsAt(model, node);
    for (const { edge, rms } of found) {
      expect(model.src[edge]).toBe(node);
      expect(rms).toBeGreaterThan(0);
    }
    expect(found.map(({ rms }) => rms)).toEqual(found.map(({ rms }) => rms).sort((a, b) => b - a));
    if (found.length > 1) several++;
    expect(found.length).toBeLessThanOrEqual(edgesAt(model.consumers, node).length);
  }
  expect(several).toBeGreaterThan(0);
});

it("the main way leads on from node to node, up to the end", () => {
  const start = Array.from({ length: root }, (_, n) => n).find((n) => arrivalsAt(model, n).length > 1) as number;
  const way = mainWay(model, start, root);
  expect(way.length).toBeGreaterThan(3);
  expect(model.src[way[0] as number]).toBe(start);
  expect(model.dst[way.at(-1) as number]).toBe(root);
  way.slice(1).forEach((edge, i) => expect(model.src[edge]).toBe(model.dst[way[i] as number]));
  expect(mainWay(model, root, start)).toEqual([]);
});
