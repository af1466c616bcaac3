import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fold, nodesWithin, type VisibleGraph } from "../fold/fold";
import { reachable } from "../fold/open";
import { transformer } from "../fixtures/transformer";
import { modelOf } from "../trace/model";
import { nested, type LayoutCache, type NestedLayout } from "./nested";
import type { Rect } from "./types";

const model = modelOf(transformer({ blocks: 3, heads: 4, broken: 1, extra: 3 }));
const { parent, name } = model.trace.scopes;

function draw(open: ReadonlySet<number>, cache?: LayoutCache): { graph: VisibleGraph; layout: NestedLayout } {
  const graph = fold(model, { open });
  const options = { padding: 12, header: 20, rankGap: 40, nodeGap: 20, edgeGap: 12, size: () => ({ width: 50, height: 30 }) };
  return { graph, layout: nested(graph, model.trace.nodes.scope, parent, options, cache) };
}

const anyOpen = fc
  .array(fc.integer({ min: 0, max: parent.length - 1 }), { maxLength: 25 })
  .map((rows) => reachable(model, new Set([0, ...rows, ...rows.flatMap((s) => chain(s))])));

function chain(scope: number): number[] {
  const out: number[] = [];
  for (let s = scope; s >= 0; s = parent[s]!) out.push(s);
  return out;
}

const contains = (outer: Rect, inner: Rect) =>
  inner.x >= outer.x - 0.01 && inner.y >= outer.y - 0.01 && inner.x + inner.width <= outer.x + outer.width + 0.01 && inner.y + inner.height <= outer.y + outer.height + 0.01;

const apart = (a: Rect, b: Rect) =>
  a.x + a.width <= b.x + 0.01 || b.x + b.width <= a.x + 0.01 || a.y + a.height <= b.y + 0.01 || b.y + b.height <= a.y + 0.01;

describe("containers", () => {
  it("hold their contents, and nothing else meets", () => {
    fc.assert(
      fc.property(anyOpen, (open) => {
        const { graph, layout } = draw(open);
        graph.items.forEach((item, i) => {
          if (item.parent >= 0) expect(contains(layout.boxes[item.parent]!, layout.boxes[i]!)).toBe(true);
          expect(contains(layout.bounds, layout.boxes[i]!)).toBe(true);
          for (let j = 0; j < i; j++) {
            if (graph.items[j]!.parent === item.parent) expect(apart(layout.boxes[i]!, layout.boxes[j]!)).toBe(true);
          }
        });
      }),
      { numRuns: 40 },
    );
  });

  it("let every edge through without a break", () => {
    fc.assert(
      fc.property(anyOpen, (open) => {
        const { graph, layout } = draw(open);
        const right = (b: Rect) => b.x + b.width;
        graph.edges.forEach((edge, e) => {
          const pieces = layout.segments.filter((segment) => segment.edges.includes(e));
          const starts = pieces.filter((piece) => piece.from === edge.from);
          const ends = pieces.filter((piece) => piece.to === edge.to);
          expect(starts.length).toBeGreaterThan(0);
          expect(ends.length).toBeGreaterThan(0);
          for (const { route } of starts) expect(route[0]).toBeCloseTo(right(layout.boxes[edge.from]!), 5);
          for (const { route } of ends) expect(route.at(-2)).toBeCloseTo(layout.boxes[edge.to]!.x, 5);
          // Every other end is where another piece goes on.
          const at = (x: number, y: number) => `${x.toFixed(2)},${y.toFixed(2)}`;
          const begun = new Set(pieces.map(({ route }) => at(route[0]!, route[1]!)));
          const ended = new Set(pieces.map(({ route }) => at(route.at(-2)!, route.at(-1)!)));
          for (const piece of pieces) {
            if (piece.to < 0) expect(begun.has(at(piece.route.at(-2)!, piece.route.at(-1)!))).toBe(true);
            if (piece.from < 0) expect(ended.has(at(piece.route[0]!, piece.route[1]!))).toBe(true);
          }
        });
      }),
      { numRuns: 40 },
    );
  });
});

describe("opening a module", () => {
  const named = (of: number, part: string) => model.childScopes[of]!.find((s) => model.trace.strings[name[s]!] === part)!;
  const blocks = named(0, "blocks");
  const [first, last] = [named(blocks, "0"), named(blocks, "2")];

  /** Where the contents of a scope stand, seen from its frame. */
  function inside(scope: number, { graph, layout }: ReturnType<typeof draw>): string[] {
    const at = graph.items.findIndex((item) => item.open && item.scope === scope);
    const frame = layout.boxes[at]!;
    const rows: string[] = [`${frame.width} x ${frame.height}`];
    const own = new Set(nodesWithin(model, scope));
    graph.items.forEach((item, i) => {
      const within = item.node >= 0 ? own.has(item.node) : chain(item.scope).includes(scope);
      const { x, y, width, height } = layout.boxes[i]!;
      if (within) rows.push(`${item.kind} ${item.node} ${item.scope}: ${x - frame.x}, ${y - frame.y}, ${width} x ${height}`);
    });
    return rows;
  }

  it("leaves what is inside the others as it was", () => {
    const before = new Set([0, blocks, first, named(first, "attn")]);
    for (const opened of [[last], [last, named(last, "attn")], [named(0, "embed")], [named(0, "ln_f")]]) {
      const after = new Set([...before, ...opened]);
      expect(inside(first, draw(after))).toEqual(inside(first, draw(before)));
    }
  });

  it("does again only what has changed", () => {
    const cache: LayoutCache = new Map();
    const before = new Set([0, blocks, first, named(first, "attn")]);
    draw(before, cache);
    const known = cache.size;
    draw(before, cache);
    expect(cache.size).toBe(known);
    draw(new Set([...before, named(first, "mlp")]), cache);
    // The module itself, and what is around it: the block, the blocks, the whole.
    expect(cache.size).toBeLessThanOrEqual(known + 4);
  });

  it("draws equal modules alike", () => {
    const all = draw(new Set([0, blocks, first, last]));
    const [a, b] = [inside(first, all), inside(last, all)].map((rows) => rows.map((row) => row.replace(/^.*?: /, "")));
    expect(a).toEqual(b);
  });
});
