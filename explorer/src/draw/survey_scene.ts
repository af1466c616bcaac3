/** What only surveys draw: kernels, recurrences, runs of alike parts, handles, badges and counts. */
import { Pen } from "../layout/routes";
import type { Rect, Route } from "../layout/types";
import { arrowHead, pathData, placeAlong, shortened } from "./curves";
import { LEVEL, type DisplayList, type Target } from "./display";
import { LOOP, type EdgeLook, type Metrics, type NodeLook } from "./looks";
import type { Token } from "./palette";
import { READABLE, SceneBuilder, outline, type BoxStyle, type Scene } from "./scene";
import { around, boxPath, circlePath, clusters, hatchPath, hexagonPath } from "./shapes";

/** What a turn of a recurrence hands to the next: from where it leaves back to where it comes in. */
export interface Loop {
  /** Items of the visible graph. */
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

/** Nodes drawn as one kernel. */
export interface Hull {
  readonly items: readonly number[];
  readonly label: string;
}

export interface SurveyScene extends Scene {
  readonly hulls?: readonly Hull[];
  readonly loops?: readonly Loop[];
  /** Draws handles by which parts are opened and closed. */
  readonly handles?: boolean;
}

export function surveyList(scene: SurveyScene): DisplayList {
  return new SurveyBuilder(scene).build();
}

/** Nodes of a kernel in neighbouring ranks stand in one frame; those further apart in frames of their own. */
export function hullParts(boxes: readonly Rect[], metrics: Metrics): Rect[][] {
  return clusters(boxes, metrics.rankGap * 1.25);
}

class SurveyBuilder extends SceneBuilder<SurveyScene> {
  protected override underEdges(): void {
    for (const hull of this.scene.hulls ?? []) this.hull(hull);
  }

  protected override behindBox(box: Rect, { shape }: NodeLook, { stroke, opacity }: BoxStyle): void {
    if (shape !== "run") return;
    for (const back of [6, 3]) {
      const card = { ...box, x: box.x + back, y: box.y - back };
      this.path(outline(shape, card), card, { fill: "raised", stroke, width: 1, opacity: opacity ?? 0.85 });
    }
  }

  protected override onBox(item: number, box: Rect, look: NodeLook, { stroke }: BoxStyle): void {
    const many = look.shape === "scope" || look.shape === "run";
    if (look.share !== undefined) this.progress(box, look.share, look.lit === undefined ? stroke : "canvas");
    if (look.bad && many) {
      const inner = { x: box.x + 3, y: box.y + box.height - 9, width: box.width - 6, height: 6 };
      this.path(hatchPath(inner, 5), inner, { stroke: "bad", width: 1.4, minScale: READABLE.label });
    }
    if (look.params) this.badge(box);
    if (look.loop) this.ownLoop(box, stroke);
    if (this.scene.handles && many) this.handle("+", box.x + box.width - 3, box.y + box.height - 3, { kind: "toggle", item });
    if (look.count) this.count(look.count, box, look.countToken ?? "ink");
  }

  protected override onFrame(item: number, box: Rect): void {
    if (!this.scene.handles) return;
    const { header } = this.scene.metrics;
    const [right, y] = [box.x + box.width - header * 0.55, box.y + header * 0.62];
    this.handle("−", right, y, { kind: "toggle", item });
    this.handle("⤢", right - header * 0.9, y, { kind: "enter", item });
  }

  protected override onEdge(route: Route, { sign, selected }: EdgeLook): void {
    if (sign !== undefined) this.sign(sign, route, selected === true);
  }

  protected override overAll(): void {
    this.loops(this.scene.loops ?? []);
    this.hullNames(this.scene.hulls ?? []);
  }

  private hull(hull: Hull): void {
    const { layout, metrics } = this.scene;
    const parts = hullParts(hull.items.map((i) => layout.boxes[i]!), metrics);
    for (const part of parts) {
      const box = around(part, metrics.padding * 0.7);
      this.path(boxPath(box, 12), box, { fill: "kernelFill", stroke: "kernel", width: 1.6, dash: [5, 4], opacity: 0.9 });
    }
  }

  /** The names of kernels, where they can be read: above their frames, or below, apart from one another. */
  private hullNames(hulls: readonly Hull[]): void {
    const { layout, graph, metrics } = this.scene;
    const size = metrics.captionSize;
    const taken: Rect[] = graph.items.flatMap((item, i) => (item.open ? [] : [layout.boxes[i]!, ...this.captions(i)]));
    for (const hull of hulls) {
      const parts = hullParts(hull.items.map((i) => layout.boxes[i]!), metrics);
      const frame = around(parts.reduce((most, part) => (part.length > most.length ? part : most)), metrics.padding * 0.7);
      const width = this.measure(hull.label, "ui", size) + 10;
      const at = (y: number): Rect => ({ x: frame.x + (frame.width - width) / 2, y, width, height: size * 1.5 });
      const places = [at(frame.y - size * 1.75), at(frame.y + frame.height + size * 0.25)];
      const box = places.find((place) => !taken.some((other) => meets(place, other)));
      // Between neighbours there may be no room: then the frame alone tells that they are one.
      if (box === undefined) continue;
      taken.push(box);
      this.label(hull.label, box, "kernel");
    }
  }

  /** Words over what is drawn, on a ground of their own. */
  private label(text: string, box: Rect, fill: Token): void {
    const { metrics } = this.scene;
    this.path(boxPath(box, box.height / 2), box, { fill: "panel", opacity: 0.9, minScale: READABLE.caption });
    this.text(text, box.x + box.width / 2, box.y + box.height / 2, { size: metrics.captionSize, font: "ui", align: "middle", fill, minScale: READABLE.caption });
  }

  /** The way of a recurrence's state: out at the right, back below everything, in at the left. */
  private loops(loops: readonly Loop[]): void {
    if (loops.length === 0) return;
    const { layout, metrics } = this.scene;
    const all = around(this.items.map((item) => item.box), 0);
    const reach = metrics.edgeGap;
    loops.forEach(({ from, to, label }, k) => {
      const [a, b] = [layout.boxes[from]!, layout.boxes[to]!];
      const step = metrics.captionSize * 1.9 * k;
      const route = new Pen(a.x + a.width, a.y + a.height / 2)
        .detour(all.x + all.width + reach + step, all.y + all.height + reach + step, all.x + all.width / 2)
        .detour(all.x - reach - step, b.y + b.height / 2, b.x)
        .done();
      const box = around([{ x: all.x - reach - step, y: Math.min(a.y, b.y), width: all.width + 2 * (reach + step), height: all.y + all.height + reach + step - Math.min(a.y, b.y) }], 2);
      this.path(pathData(shortened(route, 6)), box, { stroke: "op", width: 1.6, dash: [2, 4] });
      this.path(arrowHead(route, 9, 4), box, { fill: "op", minScale: READABLE.arrow });
      const width = this.measure(label, "ui", metrics.captionSize) + 14;
      this.label(label, { x: all.x + (all.width - width) / 2, y: all.y + all.height + reach + step - metrics.captionSize * 0.8, width, height: metrics.captionSize * 1.6 }, "ink");
    });
  }

  /** A small hexagon on the corner: there are parameters inside. */
  private badge(box: Rect): void {
    const size = 12;
    const badge = { x: box.x - size / 2, y: box.y - size * 0.6, width: size, height: size * 1.14 };
    this.path(hexagonPath(badge, 1.5), badge, { fill: "paramFill", stroke: "param", width: 1.4, minScale: READABLE.label });
  }

  /** A small round button. */
  private handle(sign: string, x: number, y: number, target: Target): void {
    const radius = this.scene.metrics.captionSize * 0.62;
    const box = { x: x - radius, y: y - radius, width: 2 * radius, height: 2 * radius };
    this.path(circlePath(x, y, radius), box, { fill: "raised", stroke: "lineStrong", width: 1, minScale: READABLE.label });
    this.text(sign, x, y, { size: radius * 1.7, font: "symbol", align: "middle", fill: "muted", minScale: READABLE.label });
    // Fingers and pointers need more room than eyes.
    this.hits.push({ target, level: LEVEL.handle, box: around([box], 4) });
  }

  /** The loop below a box by which its state comes back. */
  private ownLoop(box: Rect, stroke: Token): void {
    const [left, right, foot] = [box.x + box.width * 0.25, box.x + box.width * 0.75, box.y + box.height];
    const route = Float64Array.from([right, foot, right, foot + LOOP, left, foot + LOOP, left, foot]);
    const around = { x: left, y: foot, width: right - left, height: LOOP };
    this.path(pathData(shortened(route, 5)), around, { stroke, width: 1.5, minScale: READABLE.lanes });
    this.path(arrowHead(route, 8, 3.6), around, { fill: stroke, minScale: READABLE.arrow });
  }

  /** A bar along the foot of a box: so much is done of what it stands for. */
  private progress(box: Rect, share: number, token: Token): void {
    const bar = { x: box.x + 6, y: box.y + box.height - 7, width: (box.width - 12) * share, height: 3 };
    this.path(boxPath(bar, 1.5), bar, { fill: token, minScale: READABLE.label });
  }

  private count(count: string, box: Rect, ground: Token): void {
    const size = this.scene.metrics.captionSize;
    const width = this.measure(count, "ui", size, true) + 12;
    const pill = { x: box.x + box.width - width * 0.6, y: box.y - size * 1.15, width, height: size * 1.6 };
    this.path(boxPath(pill, 9), pill, { fill: ground, minScale: READABLE.label });
    this.text(count, pill.x + width / 2, pill.y + pill.height / 2, { size, font: "ui", bold: true, align: "middle", fill: "canvas", minScale: READABLE.label });
  }

  /** A sign on the line itself. */
  private sign(text: string, route: Route, selected: boolean): void {
    const size = this.scene.metrics.captionSize;
    const { x, y } = placeAlong(route, 0.5);
    const box = { x: x - size * 0.8, y: y - size * 0.7, width: size * 1.6, height: size * 1.4 };
    this.path(boxPath(box, size * 0.7), box, { fill: "panel", stroke: selected ? "ink" : "lineStrong", width: selected ? 1.6 : 1, minScale: READABLE.arrow });
    this.text(text, x, y, { size, font: "symbol", align: "middle", fill: "ink", minScale: READABLE.label });
  }
}

function meets(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
