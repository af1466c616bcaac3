/** Lines of equal height on a grid: marching squares, each crossing where the straight line between two corners has it. */

/** Path data of the line at `level`. `grid` is row by row, `x` and `y` map its columns and rows to pixels. */
export function contour(
  grid: ArrayLike<number>,
  columns: number,
  rows: number,
  level: number,
  x: (column: number) => number,
  y: (row: number) => number,
): string {
  const parts: string[] = [];
  const at = (c: number, r: number) => grid[r * columns + c] as number;
  const share = (a: number, b: number) => (level - a) / (b - a);
  const point = (c: number, r: number) => `${x(c).toFixed(1)} ${y(r).toFixed(1)}`;
  for (let r = 0; r + 1 < rows; r++) {
    for (let c = 0; c + 1 < columns; c++) {
      const [a, b, d, e] = [at(c, r), at(c + 1, r), at(c + 1, r + 1), at(c, r + 1)];
      const above = (a > level ? 1 : 0) + (b > level ? 2 : 0) + (d > level ? 4 : 0) + (e > level ? 8 : 0);
      if (above === 0 || above === 15) continue;
      const top = () => point(c + share(a, b), r);
      const right = () => point(c + 1, r + share(b, d));
      const bottom = () => point(c + share(e, d), r + 1);
      const left = () => point(c, r + share(a, e));
      const sides = { top, right, bottom, left };
      for (const [from, to] of SEGMENTS[above] ?? []) {
        parts.push(`M${sides[from]()}L${sides[to]()}`);
      }
    }
  }
  return parts.join("");
}

type Side = "top" | "right" | "bottom" | "left";

/** Which sides a line goes between, by the corners that are above it: 1 top left, 2 top right, 4 bottom right, 8 bottom left. */
const SEGMENTS: readonly (readonly (readonly [Side, Side])[])[] = [
  [],
  [["left", "top"]],
  [["top", "right"]],
  [["left", "right"]],
  [["right", "bottom"]],
  [["left", "top"], ["right", "bottom"]],
  [["top", "bottom"]],
  [["left", "bottom"]],
  [["bottom", "left"]],
  [["top", "bottom"]],
  [["top", "right"], ["bottom", "left"]],
  [["right", "bottom"]],
  [["left", "right"]],
  [["top", "right"]],
  [["left", "top"]],
  [],
];

/** Levels that stand evenly apart around the minimum of a bowl: their heights grow with the square. */
export function bowlLevels(least: number, most: number, count: number): number[] {
  return Array.from({ length: count }, (_, k) => least + (most - least) * ((k + 0.6) / count) ** 2);
}
