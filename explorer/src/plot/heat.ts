/** Pictures of values over the plane: blue above zero, orange below, the ground's colour at zero. */
import { PALETTES } from "../draw/palette";
import type { Theme } from "../state";

const tables = new Map<Theme, Uint8ClampedArray>();

/** Red, green, blue and opacity by code: 128 is zero, 1 and 255 are the ends, 0 is no number and stays clear. */
function colours(theme: Theme): Uint8ClampedArray {
  const known = tables.get(theme);
  if (known !== undefined) return known;
  const palette = PALETTES[theme];
  const [ground, above, below] = [palette.panel, palette.input, palette.param].map(rgb) as [Rgb, Rgb, Rgb];
  const table = new Uint8ClampedArray(4 * 256);
  for (let code = 1; code < 256; code++) {
    const value = (code - 128) / 127;
    const end = value < 0 ? below : above;
    const share = 0.58 * Math.abs(value) ** 0.8;
    for (let k = 0; k < 3; k++) table[4 * code + k] = (ground[k] as number) * (1 - share) + (end[k] as number) * share;
    table[4 * code + 3] = 255;
  }
  tables.set(theme, table);
  return table;
}

type Rgb = readonly [number, number, number];

function rgb(colour: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as unknown as Rgb;
}

/** A square picture of `side` by `side` codes, from `offset` on. */
export function heat(codes: Uint8Array, offset: number, side: number, theme: Theme): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  const table = colours(theme);
  const image = context.createImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    const code = codes[offset + i] as number;
    for (let k = 0; k < 4; k++) image.data[4 * i + k] = table[4 * code + k] as number;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
