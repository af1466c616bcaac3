/** Writes a display list as SVG, for export and print. */
import { num } from "./curves";
import { shownAt, type DisplayItem, type DisplayList, type View } from "./display";
import type { Palette, Token } from "./palette";
import { FONTS } from "./text";

export interface SvgOptions {
  readonly palette: Palette;
  /** What a reader that cannot see the picture is told. */
  readonly title: string;
  readonly margin?: number;
  /** Without it the picture is transparent. */
  readonly background?: boolean;
  /** What of it is drawn, as large as it is seen; all of it if not given. */
  readonly view?: View | undefined;
}

export function svg(list: DisplayList, { palette, title, margin = 16, background = true, view }: SvgOptions): string {
  const { x, y, width, height } = list.bounds;
  const scale = view?.scale ?? 1;
  const frame = (view ? [view.x, view.y, view.width / scale, view.height / scale] : [x - margin, y - margin, width + 2 * margin, height + 2 * margin]).map(num);
  const glows = new Set<Token>();
  for (const item of list.items) if (item.kind === "path" && item.glow) glows.add(item.glow);
  const defs = [...glows].map(
    (token) =>
      `<filter id="glow-${token}" x="-60%" y="-60%" width="220%" height="220%"><feDropShadow dx="0" dy="0" stdDeviation="8" flood-color="${palette[token]}"/></filter>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${escaped(title)}" width="${num((view?.width ?? width + 2 * margin))}" height="${num(view?.height ?? height + 2 * margin)}" viewBox="${frame.join(" ")}">`,
    `<title>${escaped(title)}</title>`,
    defs.length > 0 ? `<defs>${defs.join("")}</defs>` : "",
    background ? `<rect x="${frame[0]}" y="${frame[1]}" width="${frame[2]}" height="${frame[3]}" fill="${palette.canvas}"/>` : "",
    ...list.items.filter((item) => shownAt(item, scale)).map((item) => written(item, palette)),
    "</svg>",
  ].join("");
}

function written(item: DisplayItem, palette: Palette): string {
  const opacity = item.opacity === undefined ? "" : ` opacity="${item.opacity}"`;
  if (item.kind === "text") {
    const style = `${item.font === "math" ? ` font-style="italic"` : ""}${item.bold ? ` font-weight="600"` : ""}`;
    return `<text x="${num(item.x)}" y="${num(item.y)}" font-family="${escaped(FONTS[item.font])}" font-size="${num(item.size)}"${style} text-anchor="${item.align}" dominant-baseline="central" fill="${palette[item.fill]}"${opacity}>${escaped(item.text)}</text>`;
  }
  const stroke = item.stroke ? ` stroke="${palette[item.stroke]}" stroke-width="${num(item.width ?? 1)}" stroke-linejoin="round" stroke-linecap="${item.dash ? "butt" : "round"}"` : "";
  const dash = item.dash ? ` stroke-dasharray="${item.dash.join(" ")}"` : "";
  const glow = item.glow ? ` filter="url(#glow-${item.glow})"` : "";
  return `<path d="${item.d}" fill="${item.fill ? palette[item.fill] : "none"}"${stroke}${dash}${glow}${opacity}/>`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (c) => (c === "&" ? "&amp;" : c === "<" ? "&lt;" : c === ">" ? "&gt;" : "&quot;"));
}
