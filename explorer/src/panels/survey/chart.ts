/** Paints the clock: bars of work for each thread, what memory is held below them. */
import type { Model } from "../../trace/model";
import { PHASES } from "../../trace/types";
import { shownBytes } from "../../format";
import type { Surface } from "../../views/canvas";
import { BANDS, type Alive } from "../../views/memory/alive";
import { bars, tallest, type Timeline } from "./timeline";

const FORWARD = 0;
const BACKWARD = 2;
const OTHER = 4;
export const TONES = 5;

/** Forward or backward, each in two shades that change with the module; everything else in grey. */
export function tonesOf(model: Model): Uint8Array {
  const { events, nodes } = model.trace;
  const shade = shades(model);
  const tones = new Uint8Array(model.events).fill(OTHER);
  const { phase, node } = events;
  for (let k = 0; k < model.events; k++) {
    const n = node[k] as number;
    if (n < 0 || (phase[k] as number) > BACKWARD_PHASE) continue;
    tones[k] = (phase[k] === BACKWARD_PHASE ? BACKWARD : FORWARD) + (shade[nodes.scope[n] as number] as number);
  }
  return tones;
}

/** In PHASES forward comes first, then backward. */
const BACKWARD_PHASE = PHASES.indexOf("backward");

/** Neighbouring modules of the strip differ: 0 and 1 in turn among siblings, at the first depth with several of them. */
function shades(model: Model): Uint8Array {
  const out = new Uint8Array(model.childScopes.length);
  const order: number[] = [0];
  for (const s of order) {
    const children = model.childScopes[s] as number[];
    children.forEach((child, i) => {
      out[child] = children.length > 1 && (out[s] === 0 || s === 0) ? i % 2 : (out[s] as number);
      order.push(child);
    });
  }
  return out;
}

/** Heights of the parts in a box of a given height. */
export interface Parts {
  lanes: { top: number; height: number; step: number };
  memory: { top: number; height: number };
}

const HEAD = 26;
const LANE = 13;

function partsOf(height: number, lanes: number): Parts {
  const step = Math.min(LANE, Math.max(3, (height * 0.36) / Math.max(1, lanes)));
  const bottom = HEAD + step * lanes;
  return { lanes: { top: HEAD, height: step > 6 ? step - 3 : step - 1, step }, memory: { top: bottom + 18, height: Math.max(20, height - bottom - 22) } };
}

export interface ClockPicture {
  model: Model;
  line: Timeline;
  alive: Alive;
  tones: Uint8Array;
  /** Held at each event with checkpoints, where that is known. */
  ghost: ArrayLike<number> | null;
  left: number;
}

export function paintClock(surface: Surface, picture: ClockPicture): void {
  const { context, width, height } = surface;
  const { model, line } = picture;
  const inner = width - picture.left - 14;
  const parts = partsOf(height, line.threads.length);
  context.save();
  context.translate(picture.left, 0);
  paintHead(surface, picture, inner);
  paintLanes(surface, picture, parts, inner);
  paintMemory(surface, picture, parts, inner);
  paintBreaks(surface, picture, parts, inner);
  if (model.turn < model.events) {
    const x = (line.mark[model.turn] as number) * inner;
    context.setLineDash([2, 4]);
    context.strokeStyle = surface.colour("line-strong");
    stroke(context, [x, 18, x, height - 4]);
    context.setLineDash([]);
  }
  context.restore();
}

function paintHead(surface: Surface, picture: ClockPicture, inner: number): void {
  const { context, colour } = surface;
  context.font = "600 11px Inter, system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.fillStyle = colour("muted");
  context.fillText("FORWARD", 0, 15);
  if (picture.model.turn >= picture.model.events) return;
  context.textAlign = "right";
  context.fillStyle = colour("grad");
  context.fillText("BACKWARD", inner, 15);
  context.textAlign = "left";
}

function paintLanes(surface: Surface, picture: ClockPicture, parts: Parts, inner: number): void {
  const { context, colour } = surface;
  const { line } = picture;
  const { top, step, height } = parts.lanes;
  context.font = `10.5px "JetBrains Mono", ui-monospace, monospace`;
  context.fillStyle = colour("muted");
  context.textAlign = "right";
  if (step >= 10) line.threads.forEach((_, i) => context.fillText(`t${i}`, -8, top + i * step + height - 1));
  context.textAlign = "left";
  const fills = [colour("op"), colour("op"), colour("grad"), colour("grad"), colour("value")];
  const alphas = [0.95, 0.62, 0.95, 0.62, 0.6];
  for (const bar of bars(line, picture.tones, TONES, inner)) {
    context.globalAlpha = (alphas[bar.tone] as number) * (0.25 + 0.75 * bar.share);
    context.fillStyle = fills[bar.tone] as string;
    const wide = bar.x1 - bar.x0;
    const y = top + bar.lane * step;
    if (wide > 5) roundedBox(context, bar.x0, y, wide - 1, height, 2);
    else context.fillRect(bar.x0, y, wide, height);
  }
  context.globalAlpha = 1;
}

/** A cut across the lanes where nothing ran for long. */
function paintBreaks(surface: Surface, picture: ClockPicture, parts: Parts, inner: number): void {
  const { context, colour } = surface;
  const { top, step } = parts.lanes;
  const bottom = top + step * picture.line.threads.length;
  context.strokeStyle = colour("muted");
  context.lineWidth = 1;
  for (const { x } of picture.line.breaks) {
    const at = x * inner;
    stroke(context, [at - 4, bottom, at, top - 3]);
    stroke(context, [at, bottom, at + 4, top - 3]);
  }
}

function roundedBox(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number): void {
  context.beginPath();
  context.roundRect(x, y, w, h, r);
  context.fill();
}

const BAND_COLOURS = ["param", "grad", "grad", "value"] as const;
const BAND_ALPHAS = [0.5, 0.34, 0.62, 0.4] as const;

function paintMemory(surface: Surface, picture: ClockPicture, parts: Parts, inner: number): void {
  const { context, colour } = surface;
  const { alive, line, model } = picture;
  if (model.events === 0 || alive.peak === 0) return;
  const { top, height } = parts.memory;
  const bottom = top + height;
  const at = tallest(line, alive.total, inner);
  const y = (bytes: number) => bottom - (bytes / alive.peak) * height;
  const floor = new Float64Array(at.length);
  const widest: { x: number; y: number; room: number }[] = [];
  alive.bands.forEach((band, i) => {
    const roof = floor.map((under, p) => under + heldIn(band, at[p] as number, alive, i));
    context.beginPath();
    context.moveTo(0, y(floor[0] as number));
    for (let p = 0; p < at.length; p++) context.lineTo(p + 0.5, y(roof[p] as number));
    for (let p = at.length - 1; p >= 0; p--) context.lineTo(p + 0.5, y(floor[p] as number));
    context.closePath();
    context.globalAlpha = BAND_ALPHAS[i] as number;
    context.fillStyle = colour(BAND_COLOURS[i] as string);
    context.fill();
    context.globalAlpha = 1;
    widest.push(place(floor, roof, y));
    floor.set(roof);
  });
  context.beginPath();
  for (let p = 0; p < at.length; p++) context.lineTo(p + 0.5, y(floor[p] as number));
  context.strokeStyle = colour("grad");
  context.lineWidth = 1.5;
  context.stroke();
  if (picture.ghost !== null) paintGhost(surface, picture, at, y);
  context.font = "11px Inter, system-ui, sans-serif";
  context.fillStyle = colour("ink");
  context.textAlign = "center";
  BANDS.forEach((name, i) => {
    const spot = widest[i] as { x: number; y: number; room: number };
    const half = context.measureText(name).width / 2 + 6;
    if (spot.room > 13) written(surface, name, Math.max(half, Math.min(inner - half, spot.x)), spot.y + 4);
  });
  paintPeak(surface, picture, inner, y);
}

function heldIn(band: Float64Array, event: number, alive: Alive, i: number): number {
  return event >= 0 ? (band[event] as number) : i === 0 ? alive.atRest : 0;
}

/** Where a band is thickest over a stretch of pixels: there its name stands. */
function place(floor: Float64Array, roof: Float64Array, y: (bytes: number) => number): { x: number; y: number; room: number } {
  const reach = Math.min(40, Math.floor(floor.length / 8));
  let best = { x: 0, y: 0, room: 0 };
  for (let p = reach; p < floor.length - reach; p += Math.max(1, reach >> 1)) {
    const low = Math.min(y(floor[p - reach] as number), y(floor[p] as number), y(floor[p + reach] as number));
    const high = Math.max(y(roof[p - reach] as number), y(roof[p] as number), y(roof[p + reach] as number));
    if (low - high > best.room) best = { x: p, y: (low + high) / 2, room: low - high };
  }
  return best;
}

function paintGhost(surface: Surface, picture: ClockPicture, at: Int32Array, y: (bytes: number) => number): void {
  const { context, colour } = surface;
  const ghost = picture.ghost as ArrayLike<number>;
  const highest = tallest(picture.line, Float64Array.from(ghost), at.length);
  context.beginPath();
  for (let p = 0; p < at.length; p++) {
    const k = highest[p] as number;
    context.lineTo(p + 0.5, y(k < 0 ? picture.alive.atRest : (ghost[k] as number)));
  }
  context.strokeStyle = colour("kernel");
  context.lineWidth = 1.5;
  context.setLineDash([4, 3]);
  context.stroke();
  context.setLineDash([]);
}

function paintPeak(surface: Surface, picture: ClockPicture, inner: number, y: (bytes: number) => number): void {
  const { context, colour } = surface;
  const { alive, line } = picture;
  if (alive.peakAt < 0) return;
  const x = Math.max(5, Math.min(inner - 5, (line.mark[alive.peakAt + 1] as number) * inner));
  const top = y(alive.peak);
  context.beginPath();
  context.arc(x, top, 4.5, 0, 2 * Math.PI);
  context.fillStyle = colour("panel");
  context.fill();
  context.strokeStyle = colour("ink");
  context.lineWidth = 2;
  context.stroke();
  context.font = "600 12px Inter, system-ui, sans-serif";
  context.fillStyle = colour("ink");
  const label = `peak ${shownBytes(alive.peak)}`;
  const left = x > context.measureText(label).width + 14;
  context.textAlign = left ? "right" : "left";
  const at = left ? x - 10 : x + 10;
  written(surface, label, at, top + 4);
  context.textAlign = "left";
}

/** Words that the chart's lines do not go through. */
function written({ context, colour }: Surface, text: string, x: number, y: number): void {
  context.save();
  context.strokeStyle = colour("panel");
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.globalAlpha = 0.8;
  context.strokeText(text, x, y);
  context.restore();
  context.fillText(text, x, y);
}

export function stroke(context: CanvasRenderingContext2D, [x0, y0, x1, y1]: readonly [number, number, number, number]): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
