import { describe, expect, it } from "vitest";
import { learner, randomDag, scalarNetwork, transformer } from "./graphs";
import { byDagre, byElk, ours } from "./layouts";
import { crossings, throughNodes } from "./measure";

/** Lines may cross this much more often than in the better of the two pictures. */
const ALLOWED = 1.2;

const graphs = {
  "the lesson": learner(),
  "scalar network 2-3-1": scalarNetwork([2, 3, 1]),
  "scalar network 3-4-4-1": scalarNetwork([3, 4, 4, 1]),
  "block with 4 heads": transformer(1, 4),
  "3 blocks with 2 heads": transformer(3, 2),
  "block with 12 heads": transformer(1, 12),
};

describe.each(Object.entries(graphs))("%s", (_, graph) => {
  it("has hardly more crossings than the better of dagre and elk, and no line through a node", async () => {
    const mine = ours(graph);
    const better = Math.min(crossings(byDagre(graph)), crossings(await byElk(graph)));
    expect(crossings(mine)).toBeLessThanOrEqual(better * ALLOWED);
    expect(throughNodes(graph, mine)).toBe(0);
  });
});

it("random graphs have no more crossings in all, none many more", async () => {
  let [mine, better] = [0, 0];
  for (let seed = 1; seed <= 9; seed++) {
    const graph = randomDag(16 + 6 * seed, 2 + (seed % 3), 6 + seed, seed);
    const here = crossings(ours(graph));
    const best = Math.min(crossings(byDagre(graph)), crossings(await byElk(graph)));
    expect(here).toBeLessThanOrEqual(best * ALLOWED + 4);
    expect(throughNodes(graph, ours(graph))).toBe(0);
    mine += here;
    better += best;
  }
  expect(mine).toBeLessThanOrEqual(better);
}, 20_000);

it("crossings and lines through nodes are counted", () => {
  const cross = { x: [0], y: [0], lines: [[-10, -10, 10, 10], [-10, 10, 10, -10], [-10, 20, 10, 20]] };
  expect(crossings(cross)).toBe(1);
  const graph = { nodes: [{ width: 4, height: 4 }, { width: 1, height: 1 }, { width: 1, height: 1 }], edges: cross.lines.map(() => ({ from: 1, to: 2 })) };
  expect(throughNodes(graph, { ...cross, x: [0, 99, 99], y: [0, 99, 99] })).toBe(2);
});
