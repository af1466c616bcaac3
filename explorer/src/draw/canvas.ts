/** Paints a display list on a canvas. */
import { shownAt, type DisplayItem, type DisplayList, type PathItem, type View } from "./display";
import type { Palette } from "./palette";
import { cssFont } from "./text";

/** Lines keep at least this width on the screen, in pixels. */
const HAIRLINE = 0.75;

/** Boxes of a list's items in one array: deciding what is on screen is then quick, also for 100,000 items. */
const corners = new WeakMap<DisplayList, Float32Array>();
const outlines = new WeakMap<PathItem, Path2D>();

function cornersOf(list: DisplayList): Float32Array {
  let found = corners.get(list);
  if (found) return found;
  found = new Float32Array(list.items.length * 4);
  list.items.forEach(({ box }, i) => found!.set([box.x, box.y, box.x + box.width, box.y + box.height], 4 * i));
  corners.set(list, found);
  return found;
}

/**
 * Paints what of the list is on screen and large enough to be read. The context's own transform is replaced;
 * `ratio` is the number of device pixels per pixel. The background is left as it is.
 */
export function paint(context: CanvasRenderingContext2D, list: DisplayList, view: View, palette: Palette, ratio: number): void {
  const zoom = view.scale * ratio;
  context.setTransform(zoom, 0, 0, zoom, -view.x * zoom, -view.y * zoom);
  context.lineCap = "round";
  context.lineJoin = "round";
  context.textBaseline = "middle";
  const box = cornersOf(list);
  const margin = 30;
  const [x0, y0] = [view.x - margin, view.y - margin];
  const [x1, y1] = [view.x + view.width / view.scale + margin, view.y + view.height / view.scale + margin];
  for (let i = 0, k = 0; i < list.items.length; i++, k += 4) {
    if (box[k]! > x1 || box[k + 1]! > y1 || box[k + 2]! < x0 || box[k + 3]! < y0) continue;
    const item = list.items[i]!;
    if (shownAt(item, view.scale)) paintItem(context, item, palette, view.scale, ratio);
  }
}

function paintItem(context: CanvasRenderingContext2D, item: DisplayItem, palette: Palette, scale: number, ratio: number): void {
  context.globalAlpha = item.opacity ?? 1;
  if (item.kind === "text") {
    context.font = cssFont(item.font, item.size, item.bold);
    context.textAlign = item.align === "middle" ? "center" : item.align;
    context.fillStyle = palette[item.fill];
    context.fillText(item.text, item.x, item.y);
    return;
  }
  let path = outlines.get(item);
  if (!path) outlines.set(item, (path = new Path2D(item.d)));
  if (item.glow) {
    context.shadowColor = palette[item.glow];
    context.shadowBlur = 22 * scale * ratio;
  }
  if (item.fill) {
    context.fillStyle = palette[item.fill];
    context.fill(path);
  }
  if (item.glow) context.shadowColor = "transparent";
  if (item.stroke) {
    context.strokeStyle = palette[item.stroke];
    context.lineWidth = Math.max(item.width ?? 1, HAIRLINE / scale);
    if (item.dash) {
      context.lineCap = "butt";
      context.setLineDash(item.dash as number[]);
    }
    context.stroke(path);
    if (item.dash) {
      context.setLineDash([]);
      context.lineCap = "round";
    }
  }
}
