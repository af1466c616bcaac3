/** From layout and looks to the display list. */
import type { VisibleGraph } from "../fold/visible";
import type { NestedLayout, Segment } from "../layout/nested";
import type { Rect, Route } from "../layout/types";
import { artOf, type LaneKind, type SegmentArt } from "./art";
import { Crowd } from "./crowd";
import { placeAlong, type Along } from "./curves";
import { LEVEL, type DisplayItem, type DisplayList, type HitArea, type PathItem, type TextItem } from "./display";
import { fittedLabel, isSingle, type EdgeLook, type Lane, type Metrics, type NodeLook, type Shape } from "./looks";
import type { Token } from "./palette";
import { around, boxPath, circlePath, hexagonPath } from "./shapes";
import { estimatedWidth, type TextMeasure } from "./text";

/** Zooms below which texts, chips, arrow heads and the second lane are left out. */
export const READABLE = { caption: 0.55, label: 0.4, chip: 0.6, arrow: 0.4, lanes: 0.16 } as const;

/** The pen of a box's outline. */
export interface BoxStyle {
  readonly stroke: Token;
  readonly opacity: number | undefined;
}

export interface Scene {
  readonly graph: VisibleGraph;
  readonly layout: NestedLayout;
  /** One per item, one per edge of the graph. */
  readonly nodes: readonly NodeLook[];
  readonly edges: readonly EdgeLook[];
  readonly metrics: Metrics;
  readonly measure?: TextMeasure;
}

export function displayList(scene: Scene): DisplayList {
  return new SceneBuilder(scene).build();
}

const STROKES: Readonly<Record<Shape, Token>> = {
  input: "input",
  param: "param",
  const: "value",
  op: "op",
  root: "ink",
  scope: "value",
  run: "value",
  port: "lineStrong",
};

const FILLS: Readonly<Record<Shape, Token>> = {
  input: "inputFill",
  param: "paramFill",
  const: "raised",
  op: "opFill",
  root: "ink",
  scope: "raised",
  run: "raised",
  port: "sunken",
};

/** Draws what every graph has. What only a survey's have is added by what extends it (`survey_scene.ts`). */
export class SceneBuilder<S extends Scene = Scene> {
  protected readonly scene: S;
  protected readonly measure: TextMeasure;
  protected readonly items: DisplayItem[] = [];
  protected readonly hits: HitArea[] = [];
  /** Where words stand in the frames of containers: nothing may lie on them. */
  private readonly titles: Rect[] = [];

  constructor(scene: S) {
    this.scene = scene;
    this.measure = scene.measure ?? estimatedWidth;
  }

  build(): DisplayList {
    const { graph, layout, nodes } = this.scene;
    graph.items.forEach((item, i) => {
      if (item.open) this.container(i, layout.boxes[i]!, nodes[i]!);
    });
    this.underEdges();
    for (const segment of layout.segments) this.band(segment);
    // What is lost is painted last: where pieces share a way it must not be hidden.
    const lost = layout.segments.map((segment) => this.look(segment).gradient?.bad === true);
    layout.segments.forEach((segment, i) => lost[i] || this.lanes(segment));
    layout.segments.forEach((segment, i) => lost[i] && this.lanes(segment));
    graph.items.forEach((item, i) => {
      if (!item.open) this.box(i, layout.boxes[i]!, nodes[i]!);
    });
    this.chips();
    this.overAll();
    const bounds = this.items.length === 0 ? layout.bounds : around(this.items.map((item) => item.box), 0);
    return { items: this.items, hits: this.hits, bounds };
  }

  // -- what a survey adds

  protected underEdges(): void {}
  protected behindBox(_box: Rect, _look: NodeLook, _style: BoxStyle): void {}
  protected onBox(_item: number, _box: Rect, _look: NodeLook, _style: BoxStyle): void {}
  protected onFrame(_item: number, _box: Rect): void {}
  protected onEdge(_route: Route, _look: EdgeLook): void {}
  protected overAll(): void {}

  // -- helpers

  protected path(d: string, box: Rect, style: Omit<PathItem, "kind" | "d" | "box">): void {
    this.items.push({ kind: "path", d, box, ...style });
  }

  protected text(value: string, x: number, y: number, style: Pick<TextItem, "size" | "font" | "align" | "fill"> & Partial<TextItem>): void {
    const width = this.measure(value, style.font, style.size, style.bold);
    const left = style.align === "start" ? x : style.align === "end" ? x - width : x - width / 2;
    this.items.push({ kind: "text", x, y, text: value, box: { x: left, y: y - style.size * 0.7, width, height: style.size * 1.4 }, ...style });
  }

  // -- containers

  private container(i: number, box: Rect, look: NodeLook): void {
    const { metrics } = this.scene;
    const before = this.items.length;
    this.path(boxPath(box, 12), box, {
      fill: "panel",
      stroke: look.bad ? "bad" : look.selected ? "ink" : "value",
      width: look.selected ? 2 : 1,
      opacity: look.dim ? 0.45 : undefined,
      glow: look.glow,
    });
    const y = box.y + metrics.header * 0.62;
    const x = box.x + metrics.padding * 0.8;
    this.text(look.label, x, y, { size: metrics.labelSize, font: "ui", bold: true, align: "start", fill: "ink", minScale: READABLE.label });
    if (look.subtitle) {
      const title = this.measure(look.label, "ui", metrics.labelSize, true);
      const room = box.width - metrics.padding * 2 - title;
      if (this.measure(look.subtitle, "ui", metrics.captionSize) < room) {
        this.text(look.subtitle, x + title + 10, y, { size: metrics.captionSize, font: "ui", align: "start", fill: "muted", minScale: READABLE.caption });
      }
    }
    if (look.aside) {
      this.text(look.aside, box.x + box.width / 2, box.y + box.height - metrics.padding * 0.45, {
        size: metrics.captionSize,
        font: "ui",
        align: "middle",
        fill: "muted",
        minScale: READABLE.caption,
      });
    }
    this.titles.push(...this.items.slice(before).flatMap((item) => (item.kind === "text" ? [item.box] : [])));
    this.onFrame(i, box);
    this.hits.push({ target: { kind: "item", item: i }, level: LEVEL.frame, box });
    this.hits.push({ target: { kind: "header", item: i }, level: LEVEL.header, box: { ...box, height: metrics.header * 1.2 } });
  }

  // -- edges

  /** Lanes of a piece that several edges run along: there if any has them, lost if any is (NaN + finite is NaN), as wide as the widest. */
  private look(segment: Segment): EdgeLook {
    const looks = segment.edges.map((e) => this.scene.edges[e]!);
    if (looks.length === 1) return looks[0]!;
    const together = (lanes: (Lane | null)[]): Lane | null => {
      const there = lanes.filter((lane) => lane !== null);
      if (there.length === 0) return null;
      return {
        width: Math.max(...there.map((lane) => lane.width)),
        bad: there.some((lane) => lane.bad === true),
        dim: there.every((lane) => lane.dim === true),
      };
    };
    return {
      value: together(looks.map((look) => look.value)),
      gradient: together(looks.map((look) => look.gradient)),
      band: looks.find((look) => look.band)?.band,
      selected: looks.some((look) => look.selected === true),
    };
  }

  private band(segment: Segment): void {
    const { band, selected } = this.look(segment);
    const token = band ?? (selected ? "gradFill" : undefined);
    if (!token) return;
    const { line, box } = artOf(segment, this.scene.metrics);
    this.path(line, box, { stroke: token, width: this.scene.metrics.lane * 5 });
  }

  private lanes(segment: Segment): void {
    const { metrics } = this.scene;
    const look = this.look(segment);
    const art = artOf(segment, metrics);
    // From far away one line stands for both lanes.
    const far: Token = look.gradient ? (look.gradient.bad ? "bad" : "grad") : look.value?.bad ? "bad" : "value";
    this.path(art.line, art.box, { stroke: far, width: 2, maxScale: READABLE.lanes, opacity: look.value ? undefined : 0.4 });
    const value = look.value ?? { width: 1.2, dim: true };
    const there = look.value !== null && segment.to >= 0;
    this.lane(art, look.gradient ? "value" : "alone", value, value.bad ? "bad" : "value", there);
    if (look.gradient) this.lane(art, "gradient", look.gradient, look.gradient.bad ? "bad" : "grad", segment.from >= 0);
    for (const edge of segment.edges) {
      this.hits.push({ target: { kind: "edge", edge }, level: LEVEL.edge, box: art.box, points: art.points, reach: metrics.lane + 4 });
    }
  }

  private lane(art: SegmentArt, kind: LaneKind, lane: Lane, stroke: Token, arrow: boolean): void {
    const { line, head } = art.lane(kind, lane.width, arrow);
    const opacity = lane.dim ? 0.35 : undefined;
    this.path(line, art.box, { stroke, width: lane.width, dash: lane.bad ? [5, 3.5] : undefined, opacity, minScale: READABLE.lanes });
    if (arrow) this.path(head, art.box, { fill: stroke, opacity, minScale: READABLE.arrow });
  }

  // -- boxes

  private box(i: number, box: Rect, look: NodeLook): void {
    const { metrics } = this.scene;
    const { shape } = look;
    const stroke = look.lit ?? look.rim ?? (look.bad ? "bad" : STROKES[shape]);
    const heavy = metrics.op >= 50 ? 2 : 1.5;
    const opacity = look.dim ? 0.35 : look.waiting ? 0.55 : undefined;
    if (look.selected || look.hovered) {
      const room = look.selected ? 7 : 4;
      const ring = { x: box.x - room, y: box.y - room, width: box.width + 2 * room, height: box.height + 2 * room };
      this.path(outline(shape, ring), ring, { stroke, width: 1.5, dash: look.selected ? [4, 3] : undefined, opacity: look.selected ? 1 : 0.5 });
    }
    this.behindBox(box, look, { stroke, opacity });
    const inside = metrics.inside !== undefined && isSingle(shape);
    if (shape === "root" && !inside) {
      this.path(outline(shape, box), box, { fill: "raised", stroke, width: heavy, opacity, glow: look.glow });
      const inner = { x: box.x + 5, y: box.y + 5, width: box.width - 10, height: box.height - 10 };
      this.path(outline(shape, inner), inner, { fill: look.lit ?? (look.bad ? "bad" : "ink"), opacity });
    } else {
      const fill = look.lit ?? (look.bad ? "badFill" : inside && shape === "root" ? "raised" : FILLS[shape]);
      this.path(outline(shape, box), box, { fill, stroke, width: look.glow || look.rim ? heavy * 1.4 : heavy, opacity, glow: look.glow });
    }
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const { label, size } = fittedLabel(look, box.width, metrics, this.measure);
    // A name that does not fit into a small shape stands below it.
    if (inside) {
      this.inside(box, look, opacity);
      this.hits.push({ target: { kind: "item", item: i }, level: LEVEL.box, box });
      return;
    }
    const outside = this.isOutside(look, box);
    if (!outside) {
      this.text(label, x, y, {
        size,
        font: look.font,
        bold: look.font === "ui" && shape !== "port",
        align: "middle",
        fill: shape === "root" || look.lit !== undefined ? "canvas" : shape === "port" ? "muted" : "ink",
        opacity,
        minScale: size > 20 ? READABLE.label / 2 : READABLE.label,
      });
    }
    this.onBox(i, box, look, { stroke, opacity });
    const caption = (side: { text: string; token: Token } | undefined, at: number) => {
      if (side) this.text(side.text, x, at, { size: metrics.captionSize, font: "ui", bold: side.token === "grad", align: "middle", fill: side.token, minScale: READABLE.caption });
    };
    caption(look.above, box.y - metrics.captionSize * 1.4);
    caption(outside ? { text: look.label, token: "ink" } : look.below, box.y + box.height + metrics.captionSize * 1.5);
    this.hits.push({ target: { kind: "item", item: i }, level: LEVEL.box, box });
  }

  /** Whether a name does not fit into its small shape and stands below it. */
  private isOutside(look: NodeLook, box: Rect): boolean {
    const { metrics } = this.scene;
    if (!isSingle(look.shape) || look.below !== undefined || metrics.inside !== undefined) return false;
    return fittedLabel(look, box.width, metrics, this.measure).label !== look.label;
  }

  /** The name, the number and the gradient, one below the other. */
  private inside(box: Rect, look: NodeLook, opacity: number | undefined): void {
    const { metrics } = this.scene;
    const x = box.x + box.width / 2;
    const { label, size } = fittedLabel(look, box.width, metrics, this.measure);
    const line = box.height / 3.2;
    const middle = box.y + box.height / 2;
    const shared = { align: "middle", opacity, minScale: READABLE.label } as const;
    const numbers = look.numbers !== undefined && (look.numbers.value !== "" || look.numbers.gradient !== "");
    this.text(label, x, numbers ? middle - line : middle, { ...shared, size: Math.min(size, 15), font: look.font, bold: look.font === "ui", fill: "ink" });
    if (!numbers) return;
    this.text(look.numbers?.value ?? "", x, middle + 1, { ...shared, size: metrics.inside ?? size, font: "mono", fill: "ink" });
    this.text(look.numbers?.gradient ?? "", x, middle + line, { ...shared, size: metrics.inside ?? size, font: "mono", fill: "grad" });
  }

  // -- chips

  /** Numbers on the lanes. Each edge has its chips on the piece that reaches its consumer, where there is room. */
  private chips(): void {
    const { layout, edges, graph, metrics } = this.scene;
    const home = new Map<number, Segment>();
    for (const segment of layout.segments) {
      if (segment.to >= 0 && segment.edges.length === 1) home.set(segment.edges[0]!, segment);
    }
    const wanted = [...home].filter(([e]) => edges[e]!.value?.chip !== undefined || edges[e]!.gradient?.chip !== undefined || edges[e]!.mark !== undefined);
    for (const [e, { route }] of home) this.onEdge(route, edges[e]!);
    if (wanted.length === 0) return;
    const crowd = new Crowd([...this.titles, ...graph.items.flatMap((item, i) => (item.open ? [] : [layout.boxes[i]!, ...this.captions(i)]))]);
    for (const [edge, { route }] of wanted.sort((a, b) => a[0] - b[0])) {
      const look = edges[edge]!;
      for (const lane of ["value", "gradient"] as const) {
        const chip = look[lane]?.chip;
        if (chip === undefined) continue;
        const width = Math.max(22, this.measure(chip, "mono", metrics.chipSize) + 13);
        const height = metrics.chipSize + 9;
        const side = lane === "value" ? -1 : 1;
        const box = crowd.place((share, away, turned) => beyond(placeAlong(route, share), side * turned, metrics.lane + away, width, height));
        // Where there is no room the number stands in the tape alone.
        if (box === null) continue;
        this.chip(chip, box, lane, look[lane]!);
        this.hits.push({ target: { kind: "chip", edge, lane }, level: LEVEL.chip, box });
      }
    }
    for (const [edge, { route }] of wanted) {
      const { mark } = edges[edge]!;
      if (mark !== undefined) this.mark(mark, route, crowd);
    }
  }

  /** What happens to a value on its way, beside the lane. */
  private mark(text: string, route: Route, crowd: Crowd): void {
    const { metrics } = this.scene;
    const size = metrics.captionSize;
    const width = this.measure(text, "ui", size) + 4;
    const box = crowd.place((share, away, turned) => beyond(placeAlong(route, Math.min(0.9, share + 0.2)), -turned, metrics.lane + away, width, size * 1.4));
    if (box === null) return;
    this.text(text, box.x + box.width / 2, box.y + box.height / 2, { size, font: "ui", align: "middle", fill: "muted", minScale: READABLE.caption });
  }

  /** Where the texts above and below a box stand. */
  protected captions(i: number): Rect[] {
    const { layout, nodes, metrics } = this.scene;
    const { above, below } = nodes[i]!;
    const box = layout.boxes[i]!;
    const size = metrics.captionSize;
    const at = (side: { text: string } | undefined, y: number): Rect[] => {
      if (side === undefined) return [];
      const width = this.measure(side.text, "ui", size, true);
      return [{ x: box.x + (box.width - width) / 2, y: y - size * 0.7, width, height: size * 1.4 }];
    };
    return [...at(above, box.y - size * 1.4), ...at(this.isOutside(nodes[i]!, box) ? { text: nodes[i]!.label } : below, box.y + box.height + size * 1.5)];
  }

  private chip(text: string, box: Rect, kind: "value" | "gradient", lane: Lane): void {
    const { metrics } = this.scene;
    const gradient = kind === "gradient";
    const fill: Token = gradient ? (lane.bad ? "bad" : "grad") : "raised";
    const opacity = lane.dim ? 0.45 : undefined;
    this.path(boxPath(box, box.height / 2), box, { fill, stroke: gradient ? undefined : lane.bad ? "bad" : "lineStrong", width: 1, opacity, minScale: READABLE.chip });
    this.text(text, box.x + box.width / 2, box.y + box.height / 2, {
      size: metrics.chipSize,
      font: "mono",
      align: "middle",
      fill: gradient ? "raised" : lane.bad ? "bad" : "ink",
      opacity,
      minScale: READABLE.chip,
    });
  }
}

/** The box of a chip just beyond its lane, seen from the edge's middle. */
function beyond({ x, y, dx, dy }: Along, side: number, lane: number, width: number, height: number): Rect {
  const [nx, ny] = [-dy * side, dx * side];
  const off = lane + 5 + (Math.abs(nx) * width + Math.abs(ny) * height) / 2;
  return { x: x + nx * off - width / 2, y: y + ny * off - height / 2, width, height };
}

/** Outlines by the frame that they are drawn in: frames live as long as the layout, looks change with the clock. */
const outlines = new WeakMap<Rect, { shape: Shape; d: string }>();

export function outline(shape: Shape, box: Rect): string {
  const found = outlines.get(box);
  if (found?.shape === shape) return found.d;
  const d = outlinePath(shape, box);
  outlines.set(box, { shape, d });
  return d;
}

function outlinePath(shape: Shape, box: Rect): string {
  if (shape === "param") return hexagonPath(box, box.width / 10);
  if ((shape === "input" || shape === "const" || shape === "root") && box.width !== box.height) return boxPath(box, box.height / 2);
  if (shape === "input" || shape === "const" || shape === "root") return circlePath(box.x + box.width / 2, box.y + box.height / 2, box.width / 2);
  return boxPath(box, shape === "op" ? box.height / 5.5 : shape === "port" ? box.height / 2 : 8);
}

/** Where a dot that travels along an edge is, for views that let values flow. */
export function travelling(route: Route, share: number, lane: number): { x: number; y: number } {
  const { x, y, dx, dy } = placeAlong(route, share);
  return { x: x - dy * lane, y: y + dx * lane };
}

