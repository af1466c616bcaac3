/** Outlines as path data. */
import type { Rect } from "../layout/types";
import { num } from "./curves";

export function circlePath(x: number, y: number, r: number): string {
  const d = num(2 * r);
  return `M${num(x - r)} ${num(y)}a${num(r)} ${num(r)} 0 1 0 ${d} 0a${num(r)} ${num(r)} 0 1 0 -${d} 0Z`;
}

export function boxPath({ x, y, width, height }: Rect, radius: number): string {
  const r = Math.min(radius, width / 2, height / 2);
  const arc = (dx: number, dy: number) => `a${num(r)} ${num(r)} 0 0 1 ${num(dx)} ${num(dy)}`;
  return (
    `M${num(x + r)} ${num(y)}h${num(width - 2 * r)}${arc(r, r)}v${num(height - 2 * r)}${arc(-r, r)}` +
    `h${num(2 * r - width)}${arc(-r, -r)}v${num(2 * r - height)}${arc(r, -r)}Z`
  );
}

/** A hexagon that stands on a corner, or where it is wide lies on a side, its corners a little rounded. */
export function hexagonPath({ x, y, width, height }: Rect, radius: number): string {
  const at = (across: number, down: number): [number, number] => [x + across * width, y + down * height];
  const end = height / 5 / width;
  const corners =
    width > 1.2 * height
      ? [at(end, 0), at(1 - end, 0), at(1, 0.5), at(1 - end, 1), at(end, 1), at(0, 0.5)]
      : [at(0.5, 0), at(1, 0.25), at(1, 0.75), at(0.5, 1), at(0, 0.75), at(0, 0.25)];
  let d = "";
  corners.forEach(([cx, cy], i) => {
    const toward = ([px, py]: [number, number]) => {
      const length = Math.hypot(px - cx, py - cy);
      const t = Math.min(0.5, radius / length);
      return `${num(cx + (px - cx) * t)} ${num(cy + (py - cy) * t)}`;
    };
    d += `${i === 0 ? "M" : "L"}${toward(corners[(i + 5) % 6]!)}Q${num(cx)} ${num(cy)} ${toward(corners[(i + 1) % 6]!)}`;
  });
  return `${d}Z`;
}

/** Diagonal lines across a rectangle: what is lost is hatched, whatever its colour. */
export function hatchPath({ x, y, width, height }: Rect, step: number): string {
  let d = "";
  for (let c = step; c < width + height; c += step) {
    const x0 = Math.max(0, c - height);
    const x1 = Math.min(width, c);
    d += `M${num(x + x0)} ${num(y + c - x0)}L${num(x + x1)} ${num(y + c - x1)}`;
  }
  return d;
}

/** The rectangle around several, with a margin. */
export function around(boxes: readonly Rect[], margin: number): Rect {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of boxes) {
    x0 = Math.min(x0, x);
    y0 = Math.min(y0, y);
    x1 = Math.max(x1, x + width);
    y1 = Math.max(y1, y + height);
  }
  return { x: x0 - margin, y: y0 - margin, width: x1 - x0 + 2 * margin, height: y1 - y0 + 2 * margin };
}

/** Groups of boxes that lie within `reach` of each other, directly or over others. */
export function clusters(boxes: readonly Rect[], reach: number): Rect[][] {
  const near = (a: Rect, b: Rect) =>
    a.x - reach < b.x + b.width && b.x - reach < a.x + a.width && a.y - reach < b.y + b.height && b.y - reach < a.y + a.height;
  const groups: Rect[][] = [];
  for (const box of boxes) {
    const joined = groups.filter((group) => group.some((other) => near(box, other)));
    for (const group of joined) groups.splice(groups.indexOf(group), 1);
    groups.push([...joined.flat(), box]);
  }
  return groups;
}
