/**
 * The display list: what is seen, as plain data, in the order in which it is painted.
 *
 * Only two things are ever painted, paths and texts, so that the painters (canvas, SVG) are small and
 * agree. Colours are names of the palette; sizes are in the layout's units.
 */
import type { Rect } from "../layout/types";
import type { Token } from "./palette";

export type FontName = "ui" | "mono" | "math" | "symbol";

export interface PathItem {
  readonly kind: "path";
  /** Path data as in SVG. */
  readonly d: string;
  readonly box: Rect;
  readonly fill?: Token | undefined;
  readonly stroke?: Token | undefined;
  readonly width?: number;
  readonly dash?: readonly number[] | undefined;
  readonly opacity?: number | undefined;
  /** A soft light around it. */
  readonly glow?: Token | undefined;
  /** Painted at this zoom or more only. */
  readonly minScale?: number;
  /** Below this zoom it is not worth its time any more either, because something simpler stands for it. */
  readonly maxScale?: number;
}

export interface TextItem {
  readonly kind: "text";
  /** Where the text's anchor is, halfway up its capitals. */
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly size: number;
  readonly font: FontName;
  readonly bold?: boolean | undefined;
  readonly align: "start" | "middle" | "end";
  readonly fill: Token;
  readonly box: Rect;
  readonly opacity?: number | undefined;
  readonly minScale?: number;
}

export type DisplayItem = PathItem | TextItem;

/** What the pointer can be on. Rows are those of the visible graph. */
export type Target =
  | { readonly kind: "item"; readonly item: number }
  | { readonly kind: "header"; readonly item: number }
  /** Opens a closed part in its place, or closes it; shows an open one alone. */
  | { readonly kind: "toggle" | "enter"; readonly item: number }
  | { readonly kind: "edge"; readonly edge: number }
  | { readonly kind: "chip"; readonly edge: number; readonly lane: "value" | "gradient" };

/** Of several targets at a point that of the highest level is meant, and of these the last. */
export const LEVEL = { frame: 0, edge: 1, header: 2, box: 3, chip: 4, handle: 5 } as const;

export interface HitArea {
  readonly target: Target;
  readonly level: number;
  readonly box: Rect;
  /** Where the target is a line: points along it, and how near is near enough. */
  readonly points?: Float64Array;
  readonly reach?: number;
}

export interface DisplayList {
  readonly items: readonly DisplayItem[];
  readonly hits: readonly HitArea[];
  readonly bounds: Rect;
}

/** Where the page is looked at: the point of the layout at the top left of the view, and pixels per unit. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/** The view that shows `box` whole and in the middle, at most at `most` pixels per unit. */
export function fitted(box: Rect, width: number, height: number, margin = 24, most = 1.25): View {
  const scale = Math.min(most, (width - 2 * margin) / Math.max(1, box.width), (height - 2 * margin) / Math.max(1, box.height));
  return { x: box.x + box.width / 2 - width / 2 / scale, y: box.y + box.height / 2 - height / 2 / scale, scale, width, height };
}

/** Zooms by `factor` about a point of the screen, which stays where it is. */
export function zoomed(view: View, factor: number, x: number, y: number, least = 0.02, most = 4): View {
  const scale = Math.min(most, Math.max(least, view.scale * factor));
  return { ...view, scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
}

/** Whether an item is painted at a zoom. */
export function shownAt(item: DisplayItem, scale: number): boolean {
  if (scale < (item.minScale ?? 0)) return false;
  return item.kind === "text" || scale < (item.maxScale ?? Infinity);
}
