import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fold, nodesWithin } from "../fold/fold";
import type { VisibleGraph } from "../fold/visible";
import { reachable } from "../fold/open";
import { Sketch } from "../fixtures/sketch";
import { transformer } from "../fixtures/transformer";
import { modelOf, type Model } from "../trace/model";
import { nested, type LayoutCache, type NestedLayout } from "./nested";
import type { Rect } from "./types";

const model = modelOf(transformer({ blocks: 3, heads: 4, broken: 1, extra: 3 }));
const { parent, name } = model.trace.scopes;

interface Drawing {
  readonly graph: VisibleGraph;
  readonly layout: NestedLayout;
}

function draw(open: ReadonlySet<number>, cache?: LayoutCache): Drawing {
  return drawn(model, open, cache);
}

function drawn(of: Model, open: ReadonlySet<number>, cache?: LayoutCache): Drawing {
  const graph = fold(of, { open });
  const options = { padding: 12, header: 20, rankGap: 40, nodeGap: 20, edgeGap: 12, size: () => ({ width: 50, height: 30 }) };
  return { graph, layout: nested(graph, of.trace.nodes.scope, of.trace.scopes.parent, options, cache) };
}

/** A recording with any nesting: modules left and entered again, values used far away. Node counts keep siblings from being alike. */
const anyModel = fc
  .record({
    parents: fc.array(fc.nat(), { minLength: 2, maxLength: 7, size: "max" }),
    nodes: fc.array(fc.tuple(fc.nat(), fc.array(fc.nat(), { maxLength: 3, size: "max" })), { minLength: 6, maxLength: 36, size: "max" }),
  })
  .map(({ parents, nodes }): Model => {
    const sketch = new Sketch("any");
    const rows = [0];
    parents.forEach((p, i) => rows.push(sketch.scope(rows[p % rows.length]!, `m${i}`)));
    nodes.forEach(([scope, operands], n) => {
      const into = operands.slice(0, n).map((operand) => operand % n);
      sketch.op(rows[scope % rows.length]!, `op${n}`, [...new Set(into)], [1]);
    });
    return modelOf(sketch.trace());
  });

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

const anyDrawing = fc.oneof(
  anyOpen.map((open) => draw(open)),
  fc.tuple(anyModel, fc.array(fc.nat(), { maxLength: 8 })).map(([of, rows]) => drawn(of, reachable(of, new Set([0, ...rows.map((s) => s % of.trace.scopes.parent.length)])))),
);

describe("containers", () => {
  it("hold their contents, and nothing else meets", () => {
    fc.assert(
      fc.property(anyDrawing, ({ graph, layout }) => {
        graph.items.forEach((item, i) => {
          if (item.parent >= 0) expect(contains(layout.boxes[item.parent]!, layout.boxes[i]!)).toBe(true);
          expect(contains(layout.bounds, layout.boxes[i]!)).toBe(true);
          for (let j = 0; j < i; j++) {
            if (graph.items[j]!.parent === item.parent) expect(apart(layout.boxes[i]!, layout.boxes[j]!)).toBe(true);
          }
        });
      }),
      { numRuns: 120 },
    );
  });

  it("let every edge through without a break", () => {
    fc.assert(
      fc.property(anyDrawing, ({ graph, layout }) => {
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
      { numRuns: 120 },
    );
  });
});

/** Where the contents of an open scope stand, and the lines among them, seen from its frame. */
function inside(of: Model, scope: number, { graph, layout }: Drawing): string[] {
  const at = graph.items.findIndex((item) => item.open && item.scope === scope);
  const frame = layout.boxes[at]!;
  const rows: string[] = [`${frame.width} x ${frame.height}`];
  const own = new Set(nodesWithin(of, scope));
  const within = (i: number) => {
    const item = graph.items[i]!;
    if (item.node >= 0) return own.has(item.node);
    for (let s = item.scope; s >= 0; s = of.trace.scopes.parent[s]!) if (s === scope) return true;
    return false;
  };
  graph.items.forEach((item, i) => {
    const { x, y, width, height } = layout.boxes[i]!;
    if (within(i)) rows.push(`${item.kind} ${item.node} ${item.scope}: ${(x - frame.x).toFixed(4)}, ${(y - frame.y).toFixed(4)}, ${width} x ${height}`);
  });
  for (const { route, from, to } of layout.segments) {
    if (from < 0 || to < 0 || !within(from) || !within(to)) continue;
    rows.push(`line: ${Array.from(route, (value, i) => (value - (i % 2 === 0 ? frame.x : frame.y)).toFixed(4)).join(" ")}`);
  }
  return [rows[0]!, ...rows.slice(1).sort()];
}

describe("opening a module", () => {
  const named = (of: number, part: string) => model.childScopes[of]!.find((s) => model.trace.strings[name[s]!] === part)!;
  const blocks = named(0, "blocks");
  const [first, last] = [named(blocks, "0"), named(blocks, "2")];

  it("leaves what is inside the others as it was", () => {
    const before = new Set([0, blocks, first, named(first, "attn")]);
    for (const opened of [[last], [last, named(last, "attn")], [named(0, "embed")], [named(0, "ln_f")]]) {
      const after = new Set([...before, ...opened]);
      expect(inside(model, first, draw(after))).toEqual(inside(model, first, draw(before)));
    }
  });

  it("leaves what is inside any other as it was, whatever is recorded", () => {
    fc.assert(
      fc.property(anyModel, fc.nat(), fc.nat(), (of, a, b) => {
        const above = (s: number): number[] => (s < 0 ? [] : [s, ...above(of.trace.scopes.parent[s]!)]);
        const count = of.trace.scopes.parent.length;
        const [kept, opened] = [a % count, b % count];
        if (nodesWithin(of, kept).length === 0 || above(opened).includes(kept) || above(kept).includes(opened)) return;
        const before = drawn(of, new Set(above(kept)));
        const after = drawn(of, new Set([...above(kept), ...above(opened)]));
        expect(inside(of, kept, after)).toEqual(inside(of, kept, before));
      }),
      { numRuns: 300 },
    );
  });

  it("has its values come in by operand, whichever of them come from one closed box", () => {
    const sketch = new Sketch("ports");
    const [source, kept] = [sketch.scope(0, "source"), sketch.scope(0, "kept")];
    const [a, b, c] = [sketch.op(source, "a", [], [1]), sketch.op(0, "b", [], [1]), sketch.op(source, "c", [], [1])];
    sketch.op(kept, "join", [a, b, c], [1]);
    sketch.op(kept, "more", [a], [1]);
    const of = modelOf(sketch.trace());
    const entries = ({ graph, layout }: Drawing) =>
      layout.segments.filter(({ from, to }) => from < 0 && to >= 0 && graph.items[to]!.scope === kept).map(({ route }) => Array.from(route.slice(0, 2)));
    const [closed, open] = [drawn(of, new Set([0, kept])), drawn(of, new Set([0, kept, source]))];
    const heights = (drawing: Drawing) => entries(drawing).map(([, y]) => y! - drawing.layout.boxes[drawing.graph.items.findIndex((item) => item.scope === kept)]!.y);
    expect(heights(closed).length).toBe(4);
    expect(heights(open)).toEqual(heights(closed));
    const [first, second, third] = heights(closed);
    expect(first).toBeLessThan(second!);
    expect(second).toBeLessThan(third!);
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
    const [a, b] = [inside(model, first, all), inside(model, last, all)].map((rows) => rows.map((row) => row.replace(/^.*?: /, "")).sort());
    expect(a).toEqual(b);
  });
});
