import { describe, expect, it } from "vitest";
import { Sketch } from "../../fixtures/sketch";
import { transformer } from "../../fixtures/transformer";
import { fold } from "../../fold/fold";
import { modelOf, type Model } from "../../trace/model";
import { pictureOf } from "../../draw/picture";
import { foldedLook, SURVEY } from "../../draw/folded_looks";
import { hullParts } from "../../draw/survey_scene";
import { around } from "../../draw/shapes";
import type { Rect } from "../../layout/types";
import { fittingPart, focusFor, openAlike } from "./focus";
import { boxesIn, edgeLooks, enoughOpen, hullsOf, nodeLooks } from "./looks";
import { columnOfScope, stripOf } from "./strip";
import { inputRadius, listsOf, placesOf } from "./strip_view";
import { logScale, totalsOf, within } from "./totals";

const model = modelOf(transformer({ blocks: 6, heads: 4, broken: 3, extra: 4 }));
const { scopes, strings } = model.trace;
const scopeNamed = (label: string, parent = -1) => scopes.name.findIndex((row, s) => strings[row] === label && (parent < 0 || scopes.parent[s] === parent));
const blocks = scopeNamed("blocks");
const born = model.trace.findings[0]?.node as number;

describe("totals", () => {
  const t = totalsOf(model);

  it("count everything inside, however deep", () => {
    const inside = (s: number) => model.trace.nodes.scope.filter((scope, n) => (model.trace.nodes.op[n] as number) >= 0 && within(model, scope, s)).length;
    for (const s of [0, blocks, scopeNamed("3", blocks), scopeNamed("ln_f")]) expect(t.ops[s]).toBe(inside(s));
  });

  it("say where gradients are lost", () => {
    expect([0, 1, 2, 3].every((i) => (t.badGradients[scopeNamed(String(i), blocks)] as number) > 0)).toBe(true);
    expect([4, 5].some((i) => (t.badGradients[scopeNamed(String(i), blocks)] as number) > 0)).toBe(false);
  });

  it("scale sizes by their logarithm, and tell a small difference from a large one", () => {
    const wide = logScale([1e-6, 1]);
    expect(wide(1)).toBe(1);
    expect(wide(1e-6)).toBeCloseTo(0.12);
    expect(wide(0)).toBe(0);
    const narrow = logScale([0.9, 1]);
    expect(narrow(0.9)).toBeGreaterThan(0.9);
  });
});

describe("the layer strip", () => {
  const strip = stripOf(model);

  it("has a column for each layer, in order", () => {
    expect(strip.columns.map((c) => c.label)).toEqual(["tokens", "embed", "0", "1", "2", "3", "4", "5", "ln_f", "head", "loss"]);
  });

  it("marks where gradients are lost, in columns and between them", () => {
    expect(strip.columns.map((c) => c.badGradients)).toEqual([true, true, true, true, true, true, false, false, false, false, false]);
    expect(strip.borders.map((b) => b.badGradient)).toEqual([true, true, true, true, true, false, false, false, false, false]);
    expect(strip.borders.every((b) => b.value && b.gradient)).toBe(true);
  });

  it("says in which column a scope is", () => {
    const attn = scopeNamed("attn", scopeNamed("3", blocks));
    expect(columnOfScope(model, strip, attn)).toBe(5);
    expect(strip.columnOf[born]).toBe(5);
    expect(columnOfScope(model, strip, blocks)).toBe(2);
  });

  it("shows the parts of a chosen layer", () => {
    const labels = stripOf(model, scopeNamed("1", blocks)).columns.map((c) => c.label);
    expect(labels).toContain("mlp");
    expect(labels).toContain("ln_1");
  });

  it("puts neighbours together where there are too many to be told apart", () => {
    const g = new Sketch("deep");
    let x = g.leaf(0, "input", "x", [4]);
    for (let i = 0; i < 300; i++) x = g.op(g.scope(0, `layer ${i}`), "exp", [x], [4]);
    g.op(0, "sum", [x], []);
    const deep = modelOf(g.trace());
    const columns = stripOf(deep).columns;
    expect(columns.length).toBeLessThanOrEqual(50);
    expect(columns.reduce((n, c) => n + c.scopes.length, 0)).toBe(300);
    expect(columns[1]?.label).toBe("0–6");
  });

  it("works for a run without any structure", () => {
    const g = new Sketch("flat");
    let x = g.leaf(0, "input", "x", [4]);
    for (let i = 0; i < 60; i++) x = g.op(0, "exp", [x], [4]);
    g.op(0, "sum", [x], []);
    expect(stripOf(modelOf(g.trace())).columns.map((c) => c.label)).toEqual(["x", "60 ops", "sum"]);
  });

  it("has an input before what uses it first, however deep it stands: a target is no input of the first layer", () => {
    const g = new Sketch("trained");
    const net = g.scope(0, "net");
    const [first, last] = [g.scope(net, "encoder"), g.scope(net, "decoder")];
    const x = g.leaf(first, "input", "x", [4]);
    const [y, mask] = [g.leaf(0, "input", "y", [4]), g.leaf(net, "input", "mask", [4])];
    const noise = g.leaf(last, "input", "noise", [4]);
    const hidden = g.op(first, "exp", [g.op(first, "mul", [x, x], [4])], [4]);
    const out = g.op(last, "mul", [g.op(last, "add", [hidden, mask], [4]), noise], [4]);
    g.op(0, "sum", [g.op(0, "square", [g.op(0, "sub", [out, y], [4])], [4])], []);
    const model = modelOf(g.trace(1));
    const strip = stripOf(model);
    expect(strip.columns.map((c) => c.label)).toEqual(["x", "encoder", "mask", "decoder", "y", "sub", "square", "sum"]);
    expect([x, mask, y, noise].map((n) => strip.columnOf[n])).toEqual([0, 2, 4, -1]);
    expect(stripOf(model, last).columns.map((c) => c.label)).toEqual(["noise", "add", "mul"]);
  });

  it("stands inside the width, with room for the circles at its ends", () => {
    for (const [count, width] of [[3, 800], [17, 822], [48, 560]] as const) {
      const { x } = placesOf(count, width, { first: true, last: true });
      expect(x[0]).toBeGreaterThan(0);
      expect(x[count - 1]).toBeLessThan(width);
      expect((x[count - 1] as number) - (x[count - 2] as number)).toBeGreaterThan(26);
    }
  });
});

describe("inputs among narrow columns", () => {
  it("reach no other column", () => {
    for (const pitch of [8, 12, 30, 64]) expect(2 * inputRadius(pitch)).toBeLessThanOrEqual(Math.max(8, pitch));
  });
});

describe("the loupe", () => {
  const strip = stripOf(model);
  const third = scopeNamed("3", blocks);

  it("looks into the layer of what is selected, and stays while that is inside", () => {
    expect(focusFor(model, strip, -1, { kind: "node", row: born })).toBe(third);
    expect(focusFor(model, strip, third, { kind: "scope", row: scopeNamed("attn", third) })).toBe(third);
    expect(focusFor(model, strip, third, { kind: "scope", row: scopeNamed("4", blocks) })).toBe(scopeNamed("4", blocks));
    expect(focusFor(model, strip, third, null)).toBe(third);
  });

  it("begins with a layer that many others are like", () => {
    expect(within(model, focusFor(model, strip, -1, null), blocks)).toBe(true);
  });

  it("looks into the outermost part around a node that fits, else the innermost of more than a few boxes", () => {
    const attn = scopeNamed("attn", third);
    const norm = scopeNamed("q_norm", attn);
    const look = (fits: (scope: number) => boolean) => fittingPart(model, third, born, fits);
    expect(look(() => true)).toBe(third);
    expect(look((scope) => scope === attn || scope === norm)).toBe(attn);
    const least = look(() => false);
    expect(within(model, least, third)).toBe(true);
    expect(boxesIn(model, least, new Set([attn, norm]))).toBeGreaterThanOrEqual(5);
  });

  it("opens in one layer what is open in another of the same structure", () => {
    const other = scopeNamed("5", blocks);
    const open = openAlike(model, new Set([third, scopeNamed("attn", third)]), third, other);
    expect(open.has(scopeNamed("attn", other))).toBe(true);
    expect(open.has(scopeNamed("mlp", other))).toBe(false);
  });

  it("opens enough to see something and not more than fits", () => {
    const open = enoughOpen(model, third, new Set());
    const boxes = boxesIn(model, third, open);
    expect(boxes).toBeGreaterThanOrEqual(12);
    expect(boxes).toBeLessThanOrEqual(60);
    expect(enoughOpen(model, third, open)).toBe(open);
  });

  const open = new Set([third, scopeNamed("attn", third), scopeNamed("q_norm", scopeNamed("attn", third))]);
  const picture = pictureOf(model, { open, within: third, metrics: SURVEY, hideConstants: true });
  const scenery = { cursor: model.events, selection: null, hover: null, born: new Map([[born, "NaN born here"]]), lit: new Set<number>() };

  it("marks where NaN is born, and the lanes on which gradients are lost", () => {
    const looks = nodeLooks(model, picture, scenery);
    const at = picture.graph.itemOf[born] as number;
    expect(looks[at]).toMatchObject({ bad: true, glow: "bad" });
    const lanes = edgeLooks(model, picture, scenery);
    const into = picture.graph.edges.findIndex((e) => e.to === at);
    const out = picture.graph.edges.findIndex((e) => e.from === at);
    expect(lanes[into]?.gradient?.bad).toBe(true);
    expect(lanes[out]?.gradient?.bad).not.toBe(true);
  });

  it("dims what has not happened yet, but never what is lost", () => {
    const early = edgeLooks(model, picture, { ...scenery, cursor: 1 });
    const lost = early.filter((look) => look.gradient?.bad === true);
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.every((look) => look.gradient?.dim !== true)).toBe(true);
    expect(early.filter((look) => look.gradient !== null && look.gradient.bad !== true).every((look) => look.gradient?.dim === true)).toBe(true);
  });

  it("frames a kernel only where nothing else stands in the frame", () => {
    const head = scopeNamed("head 0", scopeNamed("attn", third));
    const inside = pictureOf(model, { open: new Set([head]), within: head, metrics: SURVEY, hideConstants: true });
    const { list } = model.trace.kernels as NonNullable<typeof model.trace.kernels>;
    const hulls = hullsOf(inside, list);
    expect(hulls.length).toBeGreaterThan(0);
    for (const { items } of hulls) {
      for (const part of hullParts(items.map((i) => inside.layout.boxes[i] as Rect), SURVEY)) {
        const frame = around(part, 0);
        const inFrame = inside.layout.boxes.filter((box) => box.x >= frame.x && box.y >= frame.y && box.x + box.width <= frame.x + frame.width && box.y + box.height <= frame.y + frame.height);
        expect(inFrame).toHaveLength(part.length);
      }
    }
    // A node that stands over another between two of a kernel's would be in its frame.
    const stacked = { ...inside, graph: { ...inside.graph, items: inside.graph.items.slice(0, 3) }, layout: { ...inside.layout, boxes: [0, 1, 2].map((i) => ({ x: 0, y: 40 * i, width: 30, height: 30 })) } };
    const [above, , below] = stacked.graph.items.map((item) => item.node) as [number, number, number];
    const kernel = list[0] as (typeof list)[number];
    expect(hullsOf(stacked, [{ ...kernel, nodes: [above, below] }])).toEqual([]);
  });
});

describe("names", () => {
  const cells = (): Model => {
    const g = new Sketch("rnn");
    const [x, w] = [g.leaf(0, "input", "x", [8, 4]), g.leaf(0, "param", "cell.weight", [4, 4])];
    let h = g.op(0, "exp", [x], [8, 4]);
    for (let t = 0; t < 5; t++) {
      const s = g.scope(0, `cell ${t}`, "iteration");
      h = g.op(s, "relu", [g.op(s, "matmul", [g.op(s, "add", [h, x], [8, 4]), w], [8, 4])], [8, 4]);
    }
    g.op(0, "sum", [h], []);
    return modelOf(g.trace(1));
  };

  it("of a list's columns stand over their numbers", () => {
    const { columns } = stripOf(cells());
    expect(columns.map(({ label, list }) => [list, label])).toEqual([
      [undefined, "x"],
      [undefined, "exp"],
      ["cell", "0"],
      ["cell", "1"],
      ["cell", "2"],
      ["cell", "3"],
      ["cell", "4"],
      [undefined, "sum"],
    ]);
    expect(listsOf(columns)).toEqual([{ name: "cell", first: 2, last: 6 }]);
    const large = modelOf(transformer({ blocks: 4, heads: 2, broken: -1, extra: 1 }));
    expect(listsOf(stripOf(large).columns).map(({ name }) => name)).toEqual(["blocks"]);
  });

  it("of ports say what stands behind the border", () => {
    const model = cells();
    const step = model.childScopes[0]?.[2] as number;
    const { items } = fold(model, { open: new Set([step]), within: step });
    const looks = items.flatMap((item) => (item.kind === "port" ? [foldedLook(model, item)] : []));
    expect(looks.map(({ shape, label }) => [shape, label])).toEqual([
      ["port", "cell 1 →"],
      ["input", "x"],
      ["param", "weight"],
      ["port", "→ cell 3"],
    ]);
  });

  it("ring what is selected once: the operation, not the port at which its value leaves", () => {
    const model = cells();
    const step = model.childScopes[0]?.[2] as number;
    const picture = pictureOf(model, { open: new Set([step]), within: step, metrics: SURVEY, hideConstants: true });
    const port = picture.graph.items.find((item) => item.kind === "port" && foldedLook(model, item).label === "→ cell 3");
    const scenery = { cursor: model.events, hover: null, born: new Map<number, string>(), lit: new Set<number>() };
    const selected = (row: number) =>
      nodeLooks(model, picture, { ...scenery, selection: { kind: "node", row } }).flatMap(({ selected }, i) => (selected ? [picture.graph.items[i]?.kind] : []));
    expect(selected(port?.node as number)).toEqual(["node"]);
    const entering = picture.graph.items.find((item) => item.kind === "port" && foldedLook(model, item).label === "cell 1 →");
    expect(selected(entering?.node as number)).toEqual(["port"]);
  });
});
