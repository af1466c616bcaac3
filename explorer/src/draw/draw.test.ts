import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { transformer } from "../fixtures/transformer";
import { learner } from "../fixtures/learner";
import { openAtFirst } from "../fold/open";
import type { Route } from "../layout/types";
import { modelOf } from "../trace/model";
import { Crowd } from "./crowd";
import { beside, boxOf, lengthOf, pieces, placeAlong, pointsAlong, reversed, shortened } from "./curves";
import { fitted, zoomed, type DisplayList } from "./display";
import { targetAt } from "./hit";
import { foldedLook, SURVEY } from "./folded_looks";
import { baseEdge, baseLook, boxSize, laneWidth, LESSON } from "./looks";
import { PALETTES } from "./palette";
import { paint } from "./canvas";
import { pictureOf, type Picture } from "./picture";
import { displayList } from "./scene";
import { surveyList } from "./survey_scene";
import { boxPath, circlePath, hatchPath, hexagonPath } from "./shapes";
import { svg } from "./svg";
import { estimatedWidth } from "./text";

const lesson = modelOf(learner);
const large = modelOf(transformer({ blocks: 3, heads: 4, broken: 1, extra: 3 }));
const small = pictureOf(lesson, { metrics: LESSON, open: openAtFirst(lesson) });
const folded = pictureOf(large, { metrics: SURVEY, open: openAtFirst(large) });

function withChips(picture: Picture): DisplayList {
  const edges = picture.edges.map((edge) => ({
    ...edge,
    value: { ...edge.value!, chip: "1.25" },
    gradient: { width: 2, chip: "−0.5" },
  }));
  return displayList({ ...picture, edges });
}

/** A route from left to right, as layouts make them: the more it climbs the more room it has. */
const anyRoute = fc
  .array(fc.tuple(fc.integer({ min: 30, max: 200 }), fc.double({ min: -3, max: 3, noNaN: true })), { minLength: 1, maxLength: 5 })
  .map((steps): Route => {
    const out = [0, 0];
    for (const [dx, climb] of steps) {
      const dy = Math.round(dx * climb);
      const [x, y] = [out.at(-2)!, out.at(-1)!];
      out.push(x + dx / 2, y, x + dx / 2, y + dy, x + dx, y + dy);
    }
    return Float64Array.from(out);
  });

describe("curves", () => {
  it("beside a curve keep their distance", () => {
    fc.assert(
      fc.property(anyRoute, fc.constantFrom(-5, 3, 5), (route, by) => {
        const side = beside(route, by);
        const points = pointsAlong(route, 64);
        const shifted = pointsAlong(side, 16);
        for (let i = 0; i < shifted.length; i += 2) {
          let least = Infinity;
          for (let j = 0; j < points.length; j += 2) least = Math.min(least, Math.hypot(points[j]! - shifted[i]!, points[j + 1]! - shifted[i + 1]!));
          expect(least).toBeLessThan(Math.abs(by) + 2.5);
        }
        expect(side[1]).toBeCloseTo(route[1]! + by, 6);
        expect(side.at(-1)).toBeCloseTo(route.at(-1)! + by, 6);
      }),
      { numRuns: 60 },
    );
  });

  it("turn around, and end sooner, on the same line", () => {
    fc.assert(
      fc.property(anyRoute, (route) => {
        expect(reversed(reversed(route))).toEqual(route);
        const cut = shortened(route, 6);
        expect(cut.slice(0, 2)).toEqual(route.slice(0, 2));
        expect(Math.hypot(cut.at(-2)! - route.at(-2)!, cut.at(-1)! - route.at(-1)!)).toBeLessThan(60);
        expect(lengthOf(cut)).toBeLessThan(lengthOf(route));
        expect(pieces(cut)).toBe(pieces(route));
      }),
    );
  });

  it("have places along them in order, from end to end", () => {
    fc.assert(
      fc.property(anyRoute, (route) => {
        const places = [0, 0.25, 0.5, 0.75, 1].map((share) => placeAlong(route, share));
        places.slice(1).forEach((place, i) => expect(place.x).toBeGreaterThanOrEqual(places[i]!.x));
        expect(places[0]!.x).toBeCloseTo(0, 4);
        expect(places[4]!.x).toBeCloseTo(route.at(-2)!, 4);
        for (const { dx, dy } of places) expect(Math.hypot(dx, dy)).toBeCloseTo(1, 6);
      }),
    );
  });
});

describe("the display list", () => {
  it.each([
    ["a lesson", withChips(small)],
    ["a folded graph", surveyList(folded)],
  ])("of %s has everything within its bounds, and nothing undefined", (_, list) => {
    const { bounds } = list;
    for (const item of list.items) {
      expect([item.box.x, item.box.y, item.box.width, item.box.height].every(Number.isFinite)).toBe(true);
      expect(item.box.x).toBeGreaterThanOrEqual(bounds.x - 0.01);
      expect(item.box.y + item.box.height).toBeLessThanOrEqual(bounds.y + bounds.height + 0.01);
      if (item.kind === "path") expect(item.d).toMatch(/^M[-\dMLHVCQAZahvlcqz. ]+$/);
    }
  });

  it("puts chips where they hide neither nodes nor each other", () => {
    const list = withChips(small);
    const chips = list.hits.filter((hit) => hit.target.kind === "chip").map((hit) => hit.box);
    expect(chips.length).toBe(2 * small.graph.edges.length);
    const others = [...small.layout.boxes];
    for (const chip of chips) {
      for (const other of others) {
        const w = Math.min(chip.x + chip.width, other.x + other.width) - Math.max(chip.x, other.x);
        const h = Math.min(chip.y + chip.height, other.y + other.height) - Math.max(chip.y, other.y);
        expect(Math.min(w, h)).toBeLessThan(3);
      }
      others.push(chip);
    }
  });

  it("puts a chip elsewhere where its first place is taken, further away where all are, and nowhere before over something", () => {
    const at = (share: number, away: number) => ({ x: Math.round(100 * share), y: away, width: 10, height: 10 });
    expect(new Crowd([]).place(at)?.x).toBe(50);
    const crowd = new Crowd([{ x: 48, y: 0, width: 10, height: 10 }]);
    expect(crowd.place(at)?.x).toBe(58);
    expect(crowd.place(at)?.x).toBe(34);
    const full = (height: number) => new Crowd([{ x: 0, y: 0, width: 100, height }]).place(at);
    expect(full(7)).toMatchObject({ x: 50, y: 7 });
    expect(full(30)).toBeNull();
    // Where the whole of its own side is taken a chip goes to the other one.
    const sided = (share: number, away: number, side: 1 | -1) => ({ x: 100 * share, y: side * (10 + away), width: 10, height: 8 });
    expect(new Crowd([{ x: -50, y: 0, width: 300, height: 200 }]).place(sided)?.y).toBe(-10);
  });

  it("draws what is lost to NaN dashed", () => {
    const lost = folded.edges.filter((edge) => edge.gradient?.bad).length;
    expect(lost).toBeGreaterThan(0);
    const dashed = surveyList(folded).items.filter((item) => item.kind === "path" && item.stroke === "bad" && item.dash);
    expect(dashed.length).toBeGreaterThanOrEqual(lost);
  });

  it("draws only what has happened", () => {
    const nothing = displayList({ ...small, edges: small.edges.map(() => ({ value: null, gradient: null })) });
    expect(nothing.items.some((item) => item.kind === "path" && (item.stroke === "grad" || item.fill === "grad"))).toBe(false);
  });
});

describe("looks", () => {
  it("come from the kind of node", () => {
    const shapes = small.graph.items.map((item) => baseLook(lesson, item).shape);
    expect(new Set(shapes)).toEqual(new Set(["input", "param", "op", "root"]));
  });

  it("boxes are wide enough for their labels", () => {
    for (const item of folded.graph.items) {
      const look = foldedLook(large, item);
      if (look.shape === "scope" || look.shape === "run") {
        expect(boxSize(look, SURVEY, estimatedWidth).width).toBeGreaterThan(estimatedWidth(look.label, "ui", SURVEY.labelSize, true));
      }
    }
  });

  it("lanes are wider for larger gradients, within bounds", () => {
    for (let code = 1; code < 253; code++) expect(laneWidth(code + 1)).toBeGreaterThanOrEqual(laneWidth(code));
    expect(laneWidth(253)).toBeLessThanOrEqual(4.5);
    for (const edge of small.graph.edges) expect(baseEdge(lesson, edge).gradient).not.toBeNull();
  });
});

describe("painters", () => {
  it("SVG is well formed, says what it is, and escapes texts", () => {
    const nodes = small.nodes.map((look) => ({ ...look, label: `<&">` }));
    const text = svg(displayList({ ...small, nodes }), { palette: PALETTES.light, title: `a < b & "c"` });
    expect(text.startsWith("<svg ")).toBe(true);
    expect(text).toContain("<title>a &lt; b &amp; &quot;c&quot;</title>");
    expect(text).not.toContain(`<&">`);
    expect((text.match(/<(path|text|rect|title)\b/g) ?? []).length).toBe((text.match(/\/>|<\/(text|title)>/g) ?? []).length);
  });

  it("canvas paints what is on screen and large enough, and no more", () => {
    const drawn: string[] = [];
    const context = new Proxy({} as CanvasRenderingContext2D, {
      get: (_, key) => () => drawn.push(String(key)),
      set: () => true,
    });
    globalThis.Path2D ??= class {} as typeof Path2D;
    const list = withChips(small);
    const all = fitted(list.bounds, 1200, 800);
    paint(context, list, all, PALETTES.light, 2);
    const texts = drawn.filter((call) => call === "fillText").length;
    expect(texts).toBe(list.items.filter((item) => item.kind === "text").length);
    drawn.length = 0;
    paint(context, list, { ...all, scale: 0.1 }, PALETTES.light, 1);
    expect(drawn).not.toContain("fillText");
    expect(drawn).toContain("stroke");
    drawn.length = 0;
    paint(context, list, { ...all, x: list.bounds.x + 10_000 }, PALETTES.light, 1);
    expect(drawn.filter((call) => call === "stroke" || call === "fill" || call === "fillText")).toEqual([]);
  });
});

describe("the pointer", () => {
  it("finds boxes by their middle, and edges along their line", () => {
    const list = surveyList(folded);
    folded.graph.items.forEach((item, i) => {
      const { x, y, width, height } = folded.layout.boxes[i]!;
      if (!item.open) expect(targetAt(list, x + width / 2, y + height / 2)).toEqual({ kind: "item", item: i });
      else expect(targetAt(list, x + 14, y + 10)).toEqual({ kind: "header", item: i });
    });
    for (const { route, edges } of folded.layout.segments) {
      const { x, y } = placeAlong(route, 0.5);
      const target = targetAt(list, x, y);
      expect(target?.kind).toBe("edge");
      if (target?.kind === "edge") expect(folded.layout.segments.some((s) => s.edges.includes(target.edge))).toBe(true);
      expect(edges.length).toBeGreaterThan(0);
    }
    expect(targetAt(list, list.bounds.x - 500, 0)).toBeNull();
  });

  it("finds chips before anything else", () => {
    const list = withChips(small);
    for (const hit of list.hits) {
      if (hit.target.kind === "chip") expect(targetAt(list, hit.box.x + hit.box.width / 2, hit.box.y + hit.box.height / 2)?.kind).toBe("chip");
    }
  });
});

it("zooming keeps the point under the pointer, fitting shows all", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.3, max: 3, noNaN: true }), fc.integer({ min: 0, max: 800 }), fc.integer({ min: 0, max: 600 }), (factor, x, y) => {
      const view = fitted({ x: 10, y: 20, width: 3000, height: 500 }, 800, 600);
      expect(view.x + 800 / view.scale).toBeGreaterThanOrEqual(3010);
      const next = zoomed(view, factor, x, y);
      expect(next.x + x / next.scale).toBeCloseTo(view.x + x / view.scale, 6);
      expect(next.y + y / next.scale).toBeCloseTo(view.y + y / view.scale, 6);
    }),
  );
});

it("outlines lie within their frames", () => {
  const box = { x: 10, y: 20, width: 40, height: 30 };
  for (const d of [boxPath(box, 8), hexagonPath(box, 3)]) expect(d.endsWith("Z")).toBe(true);
  expect(circlePath(30, 35, 15)).toContain("15 15");
  const points = hatchPath(box, 5).match(/-?[\d.]+/g)!.map(Number);
  const { x, y, width, height } = boxOf(points);
  expect(x).toBeGreaterThanOrEqual(10);
  expect(y).toBeGreaterThanOrEqual(20);
  expect(x + width).toBeLessThanOrEqual(50);
  expect(y + height).toBeLessThanOrEqual(50);
});
