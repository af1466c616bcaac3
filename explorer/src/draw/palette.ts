/**
 * The colours of everything that is drawn, light and dark, on canvases and by style sheets.
 *
 * Hue never stands alone: kinds of nodes differ in shape, lanes in width and direction, what is lost to NaN
 * is dashed or hatched, kernels are dashed outlines.
 */
export const PALETTES = {
  light: {
    canvas: "#faf9f6",
    panel: "#ffffff",
    raised: "#ffffff",
    sunken: "#f0eee9",
    line: "#e4e1da",
    lineStrong: "#cfcbc2",
    ink: "#1b1d24",
    muted: "#676c78",
    value: "#7d818b",
    input: "#2f7fd1",
    inputFill: "#e5f0fb",
    param: "#c96a12",
    paramFill: "#fde3cc",
    op: "#a67c00",
    opFill: "#fff1bf",
    grad: "#8a3fa8",
    gradFill: "#f4e9f8",
    bad: "#d2452b",
    badFill: "#fbe3de",
    kernel: "#12805c",
    kernelFill: "#e0f2eb",
    worker0: "#1f6fb5",
    worker1: "#b8560b",
    worker2: "#177a4c",
    worker3: "#a3317e",
    worker4: "#6353b8",
    worker5: "#0f7c86",
    worker6: "#7d6400",
    worker7: "#b83a2b",
  },
  dark: {
    canvas: "#0f1117",
    panel: "#14161e",
    raised: "#1b1e28",
    sunken: "#0b0d12",
    line: "#262a35",
    lineStrong: "#3a3f4d",
    ink: "#eceae4",
    muted: "#8f96a5",
    value: "#8f96a5",
    input: "#62abf5",
    inputFill: "#16304b",
    param: "#f0944a",
    paramFill: "#3c2716",
    op: "#e3b931",
    opFill: "#3a3216",
    grad: "#c48ae2",
    gradFill: "#2d2138",
    bad: "#ff6a52",
    badFill: "#3d1d1a",
    kernel: "#35c6a8",
    kernelFill: "#12322c",
    worker0: "#6db3f2",
    worker1: "#f0984f",
    worker2: "#4fc98a",
    worker3: "#e583c4",
    worker4: "#a99be8",
    worker5: "#4cc4cf",
    worker6: "#d9b93b",
    worker7: "#f37f72",
  },
} as const;

export type Token = keyof (typeof PALETTES)["light"];

/** The palettes as properties of style sheets: `--wg-input-fill` for `inputFill`. */
export const COLOURS = Object.entries(PALETTES)
  .map(([theme, palette]) => {
    const properties = Object.entries(palette).map(([token, colour]) => `--wg-${token.replace(/[A-Z]/, (c) => `-${c.toLowerCase()}`)}:${colour}`);
    return `[data-wg-theme=${theme}]{color-scheme:${theme};${properties.join(";")}}`;
  })
  .join("");

/** The colours of workers, which are numbered from 0; further ones begin again, and their number stands beside them. */
export const WORKERS: readonly Token[] = ["worker0", "worker1", "worker2", "worker3", "worker4", "worker5", "worker6", "worker7"];

export function workerToken(worker: number): Token {
  return WORKERS[worker % WORKERS.length] as Token;
}
export type Palette = Readonly<Record<Token, string>>;

/** Relative luminance and contrast as WCAG 2.2 defines them. */
export function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

export function luminance(colour: string): number {
  const [r, g, b] = linear(colour);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Linear-light red, green and blue of "#rrggbb", each 0 to 1. */
export function linear(colour: string): [number, number, number] {
  const part = (at: number) => {
    const c = parseInt(colour.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}
