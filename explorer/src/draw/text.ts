/** Fonts, and how wide texts are. */
import type { FontName } from "./display";

export const FONTS: Readonly<Record<FontName, string>> = {
  ui: '"Inter", system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif',
  mono: '"JetBrains Mono", ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  math: '"Latin Modern Math", "Latin Modern Roman", "STIX Two Math", "Cambria Math", "Times New Roman", serif',
  symbol: '"Latin Modern Math", "STIX Two Math", "Cambria Math", "DejaVu Sans", serif',
};

/** A font as CSS and canvas write it. */
export function cssFont(font: FontName, size: number, bold = false): string {
  return `${font === "math" ? "italic " : ""}${bold ? "600 " : ""}${size}px ${FONTS[font]}`;
}

export type TextMeasure = (text: string, font: FontName, size: number, bold?: boolean) => number;

/** Widths without a browser: an average per kind of letter, close enough for boxes to be wide enough. */
export const estimatedWidth: TextMeasure = (text, font, size, bold = false) => {
  if (font === "mono") return [...text].length * size * 0.6;
  let ems = 0;
  for (const letter of text) ems += /[ilj.,:;'|! ]/.test(letter) ? 0.3 : /[mwMW@%]/.test(letter) ? 0.88 : /[A-Z]/.test(letter) ? 0.68 : 0.56;
  return ems * size * (bold ? 1.06 : 1);
};

/** Widths as a canvas has them; each text is measured once. */
export function canvasMeasure(context: CanvasRenderingContext2D): TextMeasure {
  const known = new Map<string, number>();
  return (text, font, size, bold = false) => {
    const key = `${font}${size}${bold ? "b" : ""}${text}`;
    let width = known.get(key);
    if (width === undefined) {
      context.font = cssFont(font, size, bold);
      width = context.measureText(text).width;
      known.set(key, width);
    }
    return width;
  };
}
