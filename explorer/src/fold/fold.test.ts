import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { learner } from "../fixtures/learner";
import { Sketch } from "../fixtures/sketch";
import { transformer } from "../fixtures/transformer";
import { kindOf, modelOf, type Model } from "../trace/model";
import { fold, nodesWithin, runsIn } from "./fold";
import { contents, openAtFirst, openedTo, reachable } from "./open";
import { wholeGraph, type VisibleGraph } from "./visible";

const model = modelOf(transformer({ blocks: 4, heads: 5, broken: 2, extra: 3 }));
const { parent, name } = model.trace.scopes;
const scopes = parent.length;

function scopeNamed(...path: string[]): number {
  let at = 0;
  for (const part of path) {
    const found = model.childScopes[at]!.find((s) => model.trace.strings[name[s]!] === part);
    if (found === undefined) throw new Error(`no scope ${path.join(".")}`);
    at = found;
  }
  return at;
}

/** Four matrices in an attention: what o takes is not what q, k and v take, and each gives to another operation. */
function projections(): Model {
  const g = new Sketch("attention");
  const x = g.leaf(0, "input", "x", [8, 4]);
  const linear = (name: string, input: number) => {
    const s = g.scope(0, name);
    return g.op(s, "matmul", [input, g.leaf(s, "param", `${name}.weight`, [4, 4])], [8, 4]);
  };
  const [q, k, v] = [linear("q", x), linear("k", x), linear("v", x)];
  const scores = g.op(0, "exp", [g.op(0, "matmul", [q, g.op(0, "sqrt", [k], [8, 4])], [8, 8])], [8, 8]);
  g.op(0, "sum", [linear("o", g.op(0, "matmul", [scores, v], [8, 4]))], []);
  return modelOf(g.trace(1));
}

/** h = exp(h @ w * x + b), step by step, with the same w and b in every step. */
function recurrence(steps: number): Model {
  const g = new Sketch("recurrence");
  const [w, b] = [g.leaf(0, "param", "w", [4, 4]), g.leaf(0, "param", "b", [4])];
  let h = g.leaf(0, "input", "h", [8, 4]);
  for (let t = 0; t < steps; t++) {
    const s = g.scope(0, `step ${t}`, "iteration");
    h = g.op(s, "exp", [g.op(s, "linear", [h, w, b], [8, 4])], [8, 4]);
  }
  g.op(0, "sum", [h], []);
  return modelOf(g.trace(1));
}

/** The same run with scopes that are all unlike each other, as lessons show it. */
function unlike(of: Model): Model {
  const { trace } = of;
  return modelOf({ ...trace, scopes: { ...trace.scopes, hash: trace.scopes.parent.map((_, row) => row) } });
}

const anyOpen = fc.array(fc.integer({ min: 0, max: scopes - 1 }), { maxLength: 30 }).map((rows) => reachable(model, new Set([0, ...rows])));

it("the whole graph is what is folded where every scope is open and none is like another", () => {
  for (const of of [model, projections(), recurrence(3), modelOf(learner)].map(unlike)) {
    expect(wholeGraph(of)).toEqual(fold(of, { open: new Set(of.trace.scopes.parent.keys()), inlineCopies: true }));
  }
});

/** What must hold for every visible graph. */
function check(of: Model, graph: VisibleGraph): void {
  graph.items.forEach((item, i) => {
    if (item.parent >= 0) {
      expect(item.parent).toBeLessThan(i);
      expect(graph.items[item.parent]!.open).toBe(true);
    }
  });
  const seen = new Set<number>();
  for (const { from, to, rows } of graph.edges) {
    expect(graph.items[from]!.open || graph.items[to]!.open).toBe(false);
    for (const row of rows) {
      expect(seen.has(row)).toBe(false);
      seen.add(row);
      expect(graph.itemOf[of.src[row]!]).toBe(from);
      expect(graph.itemOf[of.dst[row]!]).toBe(to);
    }
  }
  for (let e = 0; e < of.edges; e++) {
    expect(seen.has(e)).toBe(graph.itemOf[of.src[e]!] !== graph.itemOf[of.dst[e]!]);
  }
}

describe("folding", () => {
  it("draws every edge exactly once, or hides it inside one box", () => {
    fc.assert(fc.property(anyOpen, (open) => check(model, fold(model, { open }))), { numRuns: 40 });
  });

  it("shows every node of an open graph as itself", () => {
    const lesson = modelOf(learner);
    const graph = fold(lesson, { open: openAtFirst(lesson) });
    expect(graph.items.map((item) => item.node)).toEqual(Array.from({ length: lesson.nodes }, (_, n) => n));
    expect(graph.edges.length).toBe(lesson.edges);
    expect(graph.boxes).toBe(lesson.nodes);
  });

  it("counts nodes and parameters of closed scopes", () => {
    const graph = fold(model, { open: new Set([0]) });
    for (const item of graph.items) {
      if (item.kind === "scope") expect(item.nodes).toBe(nodesWithin(model, item.scope).length);
    }
    const blocks = graph.items.find((item) => item.scope === scopeNamed("blocks"))!;
    expect(blocks.params).toBeGreaterThan(0);
  });

  it("shows the contents of one scope alone", () => {
    const attn = scopeNamed("blocks", "1", "attn");
    const graph = fold(model, { open: new Set([attn]), within: attn });
    const inside = new Set(nodesWithin(model, attn));
    for (let n = 0; n < model.nodes; n++) {
      const item = graph.items[graph.itemOf[n]!];
      expect(item !== undefined && item.kind !== "port").toBe(inside.has(n));
    }
  });

  it("draws every edge that crosses the border of one scope, once, to a port", () => {
    const withins = fc.integer({ min: 1, max: scopes - 1 });
    fc.assert(
      fc.property(withins, anyOpen, (within, open) => {
        const graph = fold(model, { open: new Set([...open, within]), within });
        const inside = new Set(nodesWithin(model, within));
        const drawn = new Map<number, number>();
        graph.edges.forEach((edge, i) => edge.rows.forEach((row) => drawn.set(row, (drawn.get(row) ?? 0) + i + 1)));
        for (let e = 0; e < model.edges; e++) {
          const [from, to] = [model.src[e]!, model.dst[e]!];
          if (inside.has(from) === inside.has(to)) continue;
          const edge = graph.edges[drawn.get(e)! - 1]!;
          const port = graph.items[inside.has(from) ? edge.to : edge.from]!;
          expect(port.kind).toBe("port");
          expect(port.entering).toBe(inside.has(to));
          expect(port.beyond).toContain(inside.has(from) ? to : from);
        }
        for (const item of graph.items) if (item.kind === "port") expect(item.parent).toBe(-1);
      }),
      { numRuns: 40 },
    );
  });

  it("shows what goes around a block: its residual, and the state of a recurrence", () => {
    const block = scopeNamed("blocks", "1");
    const graph = fold(model, { open: new Set([block]), within: block, hideConstants: true });
    const ports = graph.items.flatMap((item, i) => (item.kind === "port" ? [{ ...item, i }] : []));
    const residual = ports.find((port) => port.entering && port.params === 0)!;
    expect(kindOf(model, residual.node)).toBe("op");
    const users = graph.edges.filter((edge) => edge.from === residual.i).map((edge) => graph.items[edge.to]!);
    // The norm takes it, and the sum at the end of the attention.
    expect(users.map((item) => item.kind).sort()).toEqual(["node", "scope"]);
    expect(ports.filter((port) => !port.entering).length).toBe(1);
    const cell = recurrence(3);
    const step = cell.childScopes[0]![1]!;
    const inside = fold(cell, { open: new Set([step]), within: step });
    expect(inside.items.filter((item) => item.kind === "port").map((item) => [item.entering, item.nodes, item.params])).toEqual([
      [true, 1, 0],
      [true, 2, 2],
      [false, 1, 0],
    ]);
  });
});

describe("runs", () => {
  const blocks = scopeNamed("blocks");

  it("are siblings of equal structure in a row", () => {
    for (let s = 0; s < scopes; s++) {
      for (const run of runsIn(model, s)) expect(new Set(run.map((r) => model.trace.scopes.hash[r])).size).toBe(1);
    }
  });

  it("are those alone whose sources and users agree", () => {
    const names = (of: Model, run: readonly number[]) => run.map((s) => of.trace.strings[of.trace.scopes.name[s]!]!);
    // Projections of equal structure: three take the norm, the fourth what attention made of them.
    const attention = projections();
    const runs = runsIn(attention, 0).map((run) => names(attention, run));
    expect(runs).toEqual([["q"], ["k"], ["v"], ["o"]]);
    // Steps of a recurrence hand on to each other, and heads give to one operation.
    const cell = recurrence(4);
    expect(runsIn(cell, 0).map((run) => run.length)).toEqual([4]);
    const attn = scopeNamed("blocks", "0", "attn");
    expect(runsIn(model, attn).some((run) => run.length === 5)).toBe(true);
    expect(runsIn(model, blocks).map((run) => run.length)).toEqual([4]);
  });

  it("stand as one box until one is opened", () => {
    const graph = fold(model, { open: new Set([0, blocks]) });
    const run = graph.items.find((item) => item.kind === "run")!;
    expect(run.members.length).toBeGreaterThan(1);
    expect(graph.items.filter((item) => item.parent === run.parent).length).toBe(contents(model, blocks));
  });

  it("of layers part around the one that is opened", () => {
    const run = runsIn(model, blocks)[0]!;
    const middle = run[1]!;
    const graph = fold(model, { open: new Set([0, blocks, middle]) });
    const row = graph.items.filter((item) => run.includes(item.scope) && graph.items[item.parent]?.scope === blocks);
    expect(row.flatMap((item) => item.members)).toEqual(run);
    expect(row.filter((item) => item.open).map((item) => item.scope)).toEqual([middle]);
    check(model, graph);
  });

  it("of heads are drawn once, with the lines of all", () => {
    const attn = scopeNamed("blocks", "0", "attn");
    const heads = runsIn(model, attn).find((run) => run.length === 5)!;
    const shown = heads[3]!;
    const graph = fold(model, { open: new Set([0, blocks, scopeNamed("blocks", "0"), attn, shown]) });
    const once = graph.items.find((item) => item.open && item.members.length === 5)!;
    expect(once.scope).toBe(shown);
    expect([...once.members].sort((a, b) => a - b)).toEqual([...heads].sort((a, b) => a - b));
    // The k-th node of every head is seen as the k-th node of the one shown.
    const own = nodesWithin(model, shown);
    for (const head of heads) {
      nodesWithin(model, head).forEach((n, k) => {
        expect(graph.seenAs[n]).toBe(own[k]);
        expect(graph.itemOf[n]).toBe(graph.itemOf[own[k]!]);
      });
    }
    const into = graph.edges.filter((edge) => graph.items[edge.to]!.scope === shown && graph.items[edge.from]!.scope !== shown);
    for (const edge of into) expect(edge.rows.length % 5).toBe(0);
    check(model, graph);
  });

  it("are shown box by box where that is asked for", () => {
    const graph = fold(model, { open: new Set([0, blocks]), unfold: new Set([blocks]) });
    expect(graph.items.filter((item) => graph.items[item.parent]?.scope === blocks).length).toBe(model.childScopes[blocks]!.length);
  });
});

describe("what is open at first", () => {
  it("is everything in a small graph", () => {
    const lesson = modelOf(learner);
    expect(fold(lesson, { open: openAtFirst(lesson) }).boxes).toBe(lesson.nodes);
  });

  it.each([2, 4, 8])("is enough and not too much with %d blocks", (count) => {
    const large = modelOf(transformer({ blocks: count, heads: 4, extra: 6 }));
    const { boxes } = fold(large, { open: openAtFirst(large) });
    expect(boxes).toBeGreaterThanOrEqual(12);
    expect(boxes).toBeLessThanOrEqual(60);
  });

  it("a node is seen once everything around it is open", () => {
    for (const n of [0, 50, model.nodes - 1]) {
      const graph = fold(model, { open: openedTo(model, new Set([0]), n) });
      expect(graph.items[graph.itemOf[n]!]!.node).toBe(graph.seenAs[n]);
    }
  });
});
