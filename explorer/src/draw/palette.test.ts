import { describe, expect, it } from "vitest";
import type { DisplayList } from "./display";
import { SURVEY } from "./folded_looks";
import type { EdgeLook, Shape } from "./looks";
import { COLOURS, contrast, linear, PALETTES, WORKERS, type Token } from "./palette";
import { surveyList, type Hull } from "./survey_scene";

type Rgb = readonly [number, number, number];

/**
 * What linear light becomes for somebody who lacks the middle- or the long-wave cones: Machado, Oliveira,
 * Fernandes 2009, table 1, severity 1.
 */
const SEEN_WITH: Readonly<Record<"deuteranopia" | "protanopia", readonly [Rgb, Rgb, Rgb]>> = {
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
};

/** CIE Lab of linear light (D65). */
function lab([r, g, b]: Rgb): Rgb {
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** Distance of two colours as seen (CIE 1976); about 2 is the least that is noticed. */
function distance(a: string, b: string, eyes: keyof typeof SEEN_WITH): number {
  const seen = (colour: string) => {
    const light = linear(colour);
    return lab(SEEN_WITH[eyes].map((row) => Math.min(1, Math.max(0, row[0] * light[0] + row[1] * light[1] + row[2] * light[2]))) as unknown as Rgb);
  };
  const [p, q] = [seen(a), seen(b)];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

describe.each(["light", "dark"] as const)("the %s palette", (theme) => {
  const palette = PALETTES[theme];
  const pairs = (fore: readonly Token[], back: readonly Token[]) => fore.flatMap((a) => back.map((b) => [a, b] as const));

  it("is the page's", () => {
    const rules = COLOURS.split("}").find((block) => block.startsWith(`[data-wg-theme=${theme}]`)) ?? "";
    const told = new Map([...rules.matchAll(/--wg-([\w-]+):(#\w+)/g)].map(([, name, colour]) => [name, colour]));
    expect(told.get("line-strong")).toBe(palette.lineStrong);
    expect([...told.values()]).toEqual(Object.values(palette));
    // Whatever a style sheet asks for is there: a colour of the palette, or what the sheets themselves define.
    const sheets = Object.values(import.meta.glob("../styles/**/*.css", { query: "?raw", import: "default", eager: true })).join("\n");
    const own = new Set([...sheets.matchAll(/--wg-([\w-]+):/g)].map(([, name]) => name));
    const missing = [...sheets.matchAll(/var\(--wg-([\w-]+)\)/g)].map(([, name]) => name).filter((name) => !told.has(name) && !own.has(name));
    // These two are set where they are used, on elements.
    expect(new Set(missing)).toEqual(new Set(["below", "depth"]));
  });

  it.each(pairs(["input", "param", "op", "grad", "bad", "kernel", "value", "muted", "ink"], ["canvas", "panel", "raised"]))("shows shapes: %s on %s", (a, b) => {
    expect(contrast(palette[a], palette[b])).toBeGreaterThanOrEqual(3.3);
  });

  it.each([
    ...pairs(["ink"], ["canvas", "panel", "raised", "sunken", "inputFill", "paramFill", "opFill", "badFill", "gradFill", "kernelFill"]),
    ...pairs(["muted", "grad", "kernel"], ["canvas", "panel", "raised"]),
    ...pairs(["raised"], ["grad"]),
    ...pairs(["canvas"], ["ink"]),
    ...pairs(WORKERS, ["canvas", "panel"]),
  ])("lets text be read: %s on %s", (a, b) => {
    expect(contrast(palette[a], palette[b])).toBeGreaterThanOrEqual(4.5);
  });

  /** What stands side by side, and the least distance at which hue alone is enough. */
  const ENOUGH = 12;
  const NEIGHBOURS = ["input/param", "input/op", "param/op", "grad/value", "grad/bad", "value/bad", "kernel/op", "kernel/input"];
  it.each(NEIGHBOURS)("tells %s apart without colour vision, or by form", (pair) => {
    const [a, b] = pair.split("/") as [Token, Token];
    const nearest = Math.min(...(["deuteranopia", "protanopia"] as const).map((eyes) => distance(palette[a], palette[b], eyes)));
    if (nearest < ENOUGH) expect(FORMS[a]).not.toBe(FORMS[b]);
  });
});

/** Everything of a drawn thing but its colours: what is left for an eye that does not tell hues. */
function formOf(draw: DisplayList): string {
  return draw.items
    .map((item) => (item.kind === "text" ? "text" : `${item.d.replace(/[^A-Za-z]/g, "")} ${item.fill ? "filled" : ""} ${item.stroke ? item.width : ""} ${item.dash ?? ""}`))
    .join("\n");
}

function drawn(shape: Shape, edge: EdgeLook, hulls: readonly Hull[] = []): DisplayList {
  const item = { kind: "node", scope: 0, parent: -1, open: false, members: [], nodes: 1, params: 0 } as const;
  const box = { x: 0, y: 0, width: 40, height: 40 };
  const node = { shape, label: "a", font: "math" } as const;
  const route = Float64Array.of(40, 20, 60, 20, 80, 20, 100, 20);
  return surveyList({
    graph: {
      items: [{ ...item, node: 0 }, { ...item, node: 1 }],
      edges: [{ from: 0, to: 1, rows: Int32Array.of(0), values: Int32Array.of(0), firstRows: Int32Array.of(0), size: 1 }],
      itemOf: Int32Array.of(0, 1),
      seenAs: Int32Array.of(0, 1),
      boxes: 2,
    },
    layout: { boxes: [box, { ...box, x: 100 }], segments: [{ route, from: 0, to: 1, edges: [0] }], bounds: { ...box, width: 140 } },
    nodes: [node, node],
    edges: [edge],
    hulls,
    metrics: SURVEY,
  });
}

const VALUE: EdgeLook = { value: { width: 1.5 }, gradient: null };
const FORMS: Readonly<Partial<Record<Token, string>>> = {
  input: formOf(drawn("input", VALUE)),
  param: formOf(drawn("param", VALUE)),
  op: formOf(drawn("op", VALUE)),
  value: formOf(drawn("op", VALUE)),
  grad: formOf(drawn("op", { ...VALUE, gradient: { width: 3 } })),
  bad: formOf(drawn("op", { ...VALUE, gradient: { width: 3, bad: true } })),
  kernel: formOf(drawn("op", VALUE, [{ items: [0], label: "kernel" }])),
};

it("kinds of nodes, lanes, what is lost and kernels differ in form, not in hue alone", () => {
  const { input, param, op, grad, bad, kernel } = FORMS;
  const forms = [input, param, op, grad, bad, kernel, formOf(drawn("root", VALUE)), formOf(drawn("run", VALUE))];
  expect(new Set(forms).size).toBe(forms.length);
});
