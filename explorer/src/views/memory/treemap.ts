/** Rectangles with areas in proportion to sizes, as near to squares as their order allows (Bruls, Huizing, van Wijk 2000). */
export interface Tile {
  index: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Sizes are taken in descending order; those that are not positive get no tile. */
export function treemap(sizes: readonly number[], x: number, y: number, width: number, height: number): Tile[] {
  const order = sizes.map((_, i) => i).filter((i) => (sizes[i] as number) > 0);
  order.sort((a, b) => (sizes[b] as number) - (sizes[a] as number) || a - b);
  let left = order.reduce((sum, i) => sum + (sizes[i] as number), 0);
  const out: Tile[] = [];
  let at = 0;
  while (at < order.length && width > 0 && height > 0) {
    const scale = (width * height) / left;
    const side = Math.min(width, height);
    let count = 1;
    let sum = sizes[order[at] as number] as number;
    let worst = worstRatio(sizes, order, at, 1, sum, side, scale);
    while (at + count < order.length) {
      const more = sum + (sizes[order[at + count] as number] as number);
      const ratio = worstRatio(sizes, order, at, count + 1, more, side, scale);
      if (ratio > worst) break;
      worst = ratio;
      sum = more;
      count++;
    }
    const thick = (sum * scale) / side;
    let along = 0;
    for (let k = at; k < at + count; k++) {
      const index = order[k] as number;
      const length = ((sizes[index] as number) * scale) / thick;
      out.push(
        width >= height ? { index, x, y: y + along, width: thick, height: length } : { index, x: x + along, y, width: length, height: thick },
      );
      along += length;
    }
    if (width >= height) {
      x += thick;
      width -= thick;
    } else {
      y += thick;
      height -= thick;
    }
    left -= sum;
    at += count;
  }
  return out;
}

/** The ratio of sides of the least square-like tile of a row; the largest and smallest are its ends. */
function worstRatio(sizes: readonly number[], order: readonly number[], at: number, count: number, sum: number, side: number, scale: number): number {
  const largest = (sizes[order[at] as number] as number) * scale;
  const smallest = (sizes[order[at + count - 1] as number] as number) * scale;
  const area = sum * scale;
  return Math.max((side * side * largest) / (area * area), (area * area) / (side * side * smallest));
}
