import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { learner, randomDag, scalarNetwork, transformer } from "../../oracle/graphs";
import { throughNodes, sampled } from "../../oracle/measure";
import { inversions } from "./order";
import { layered } from "./layered";
import * as rows from "./wrap";
import { LAYOUT_DEFAULTS, type Layout, type LayoutEdge, type LayoutGraph, type LayoutNode } from "./types";

/** Any graph, cycles, loops and parallel edges included, with boxes of any size. */
const anyGraph = fc
  .record({
    sizes: fc.array(fc.record({ width: fc.integer({ min: 8, max: 160 }), height: fc.integer({ min: 8, max: 120 }) }), { minLength: 1, maxLength: 24, size: "max" }),
    ends: fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 50, size: "max" }),
  })
  .map(({ sizes, ends }): LayoutGraph => ({
    nodes: sizes,
    edges: ends.map(([a, b]) => ({ from: a % sizes.length, to: b % sizes.length })),
  }));

/** Edges from smaller to larger numbers only, with shapes and fixed ports. */
const anyDag = anyGraph.chain((graph) =>
  fc.array(fc.constantFrom("box", "circle", "hexagon"), { minLength: graph.nodes.length, maxLength: graph.nodes.length }).map((outlines): LayoutGraph => ({
    nodes: graph.nodes.map((node, v) => ({ ...node, outline: outlines[v]! as "box" | "circle" | "hexagon" })),
    edges: graph.edges
      .filter(({ from, to }) => from !== to)
      .map(({ from, to }, e): LayoutEdge => {
        const edge = { from: Math.min(from, to), to: Math.max(from, to) };
        return e % 3 === 0 && outlines[edge.from] === "box" ? { ...edge, fromPort: graph.nodes[edge.from]!.height / 4 } : edge;
      }),
  })),
);

function overlaps(nodes: readonly LayoutNode[], { x, y }: Layout): string[] {
  const found: string[] = [];
  for (let a = 0; a < nodes.length; a++) {
    for (let b = a + 1; b < nodes.length; b++) {
      const w = (nodes[a]!.width + nodes[b]!.width) / 2 - Math.abs(x[a]! - x[b]!);
      const h = (nodes[a]!.height + nodes[b]!.height) / 2 - Math.abs(y[a]! - y[b]!);
      if (w > 0.01 && h > 0.01) found.push(`${a} and ${b}`);
    }
  }
  return found;
}

const picture = (layout: Layout) => ({ x: layout.x, y: layout.y, lines: layout.routes.map((route) => (route.length > 0 ? sampled(route) : [])) });

describe("any graph", () => {
  it("is drawn without overlaps, with lines from node to node that run through no other", () => {
    fc.assert(
      fc.property(anyGraph, (graph) => {
        const layout = layered(graph);
        expect(overlaps(graph.nodes, layout)).toEqual([]);
        expect(throughNodes(graph, picture(layout))).toBe(0);
        graph.edges.forEach(({ from, to }, e) => {
          const route = layout.routes[e]!;
          if (from === to) return expect(route.length).toBe(0);
          expect(route[0]).toBeCloseTo(layout.x[from]! + graph.nodes[from]!.width / 2, 6);
          expect(route.at(-2)).toBeCloseTo(layout.x[to]! - graph.nodes[to]!.width / 2, 6);
          expect(Math.abs(route[1]! - layout.y[from]!)).toBeLessThanOrEqual(graph.nodes[from]!.height / 2);
          expect(Math.abs(route.at(-1)! - layout.y[to]!)).toBeLessThanOrEqual(graph.nodes[to]!.height / 2);
          expect(route.every(Number.isFinite)).toBe(true);
        });
      }),
      { numRuns: 300 },
    );
  });

  it("lies within its bounds", () => {
    fc.assert(
      fc.property(anyGraph, (graph) => {
        const { bounds, routes, x, y } = layered(graph);
        const inside = (px: number, py: number) =>
          px >= bounds.x - 0.01 && py >= bounds.y - 0.01 && px <= bounds.x + bounds.width + 0.01 && py <= bounds.y + bounds.height + 0.01;
        graph.nodes.forEach(({ width, height }, v) => {
          expect(inside(x[v]! - width / 2, y[v]! - height / 2) && inside(x[v]! + width / 2, y[v]! + height / 2)).toBe(true);
        });
        for (const route of routes) for (let i = 0; i < route.length; i += 2) expect(inside(route[i]!, route[i + 1]!)).toBe(true);
      }),
    );
  });

  it("is drawn the same way twice", () => {
    fc.assert(
      fc.property(anyGraph, (graph) => {
        expect(layered(graph)).toEqual(layered(structuredClone(graph)));
      }),
    );
  });
});

describe("a graph without cycles", () => {
  it("has every edge forwards, each step of it", () => {
    fc.assert(
      fc.property(anyDag, (graph) => {
        const layout = layered(graph);
        graph.edges.forEach(({ from, to }, e) => {
          expect(layout.rank[from]).toBeLessThan(layout.rank[to]!);
          const route = layout.routes[e]!;
          for (let i = 2; i < route.length; i += 2) expect(route[i]).toBeGreaterThanOrEqual(route[i - 2]! - 1e-9);
        });
      }),
    );
  });

  it("has its lines at the ports that are asked for", () => {
    fc.assert(
      fc.property(anyDag, (graph) => {
        const layout = layered(graph);
        graph.edges.forEach(({ from, fromPort }, e) => {
          if (fromPort !== undefined) expect(layout.routes[e]![1]).toBeCloseTo(layout.y[from]! + fromPort, 6);
        });
      }),
    );
  });

  it("goes on in rows where it is much wider than asked for", () => {
    fc.assert(
      fc.property(fc.integer({ min: 12, max: 60 }), fc.integer({ min: 300, max: 900 }), (count, wrapWidth) => {
        const nodes = Array.from({ length: count }, () => ({ width: 40, height: 30 }));
        const edges = Array.from({ length: count - 1 }, (_, v) => ({ from: v, to: v + 1 }));
        edges.push({ from: 0, to: 5 }, { from: 4, to: count - 1 });
        const graph = { nodes, edges };
        const layout = layered(graph, { wrapWidth, rows });
        expect(overlaps(nodes, layout)).toEqual([]);
        expect(throughNodes(graph, picture(layout))).toBe(0);
        expect(layout.bounds.width).toBeLessThan(wrapWidth * 1.6 + 2 * LAYOUT_DEFAULTS.rankGap + 80);
      }),
    );
  });
});

it("lines from narrow nodes pass their wide neighbours first, and bend then", () => {
  const sizes = [40, 10, 200, 200, 200, 200, 40];
  const edges = [1, 2, 3, 4, 5].flatMap((v) => [{ from: 0, to: v }, { from: v, to: 6 }]);
  const graph = { nodes: sizes.map((width) => ({ width, height: 30 })), edges };
  expect(throughNodes(graph, picture(layered(graph)))).toBe(0);
});

describe("the lesson's graph", () => {
  const graph = learner();
  const [x, w, b, t, mul, add, sub, square, loss] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const layout = layered(graph);

  it("has its chain in one straight row", () => {
    for (const v of [add, sub, square, loss]) expect(layout.y[v]).toBe(layout.y[mul]);
    graph.edges.forEach(({ from, to }, e) => {
      if (from >= mul) expect(new Set([1, 3, 5, 7].map((i) => layout.routes[e]![i])).size, `${from} to ${to}`).toBe(1);
    });
  });

  it("has the leaves beside their use: factors above and below, the others below", () => {
    expect(layout.y[w]).toBeLessThan(layout.y[mul]!);
    expect(layout.y[x]).toBeGreaterThan(layout.y[mul]!);
    expect(Math.abs(layout.y[w]! + layout.y[x]! - 2 * layout.y[mul]!)).toBeLessThan(4);
    expect(layout.y[b]).toBeGreaterThan(layout.y[mul]!);
    expect(layout.x[b]).toBe(layout.x[mul]);
    expect(layout.x[t]).toBe(layout.x[add]);
  });
});

describe("large graphs", () => {
  it("deep ones need no deep stack", () => {
    const count = 20_000;
    const nodes = Array.from({ length: count }, () => ({ width: 10, height: 10 }));
    const edges = Array.from({ length: count - 1 }, (_, v) => ({ from: v, to: v + 1 }));
    const { y } = layered({ nodes, edges });
    expect(new Set(y).size).toBe(1);
  });

  it("keep their longest edges out of the way", () => {
    const graph = randomDag(3000, 2, 3000, 5);
    const layout = layered(graph);
    expect(overlaps(graph.nodes.slice(0, 400), { ...layout })).toEqual([]);
    graph.edges.forEach(({ from, to }, e) => {
      const route = layout.routes[e]!;
      expect(route[0]).toBeCloseTo(layout.x[from]! + 28, 6);
      expect(route.at(-2)).toBeCloseTo(layout.x[to]! - 28, 6);
    });
  });

  it("blocks and networks have no line through a node", () => {
    for (const graph of [transformer(2, 4), scalarNetwork([3, 4, 4, 1]), randomDag(120, 3, 20, 9)]) {
      expect(throughNodes(graph, picture(layered(graph)))).toBe(0);
    }
  });
});

it("counts inversions", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 60, size: "max" }), (values) => {
      let expected = 0;
      values.forEach((a, i) => values.slice(i + 1).forEach((b) => (expected += a > b ? 1 : 0)));
      const sorted = Float64Array.from(values);
      expect(inversions(sorted, new Float64Array(values.length), 0, values.length)).toBe(expected);
      expect([...sorted]).toEqual([...values].sort((a, b) => a - b));
    }),
  );
});
