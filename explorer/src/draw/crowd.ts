/** Finds places for small boxes among larger ones. */
import type { Rect } from "../layout/types";

/** Shares of an edge's length at which a chip is tried, the middle first. */
const TRIES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];

export class Crowd {
  private readonly taken: Rect[];

  constructor(taken: readonly Rect[]) {
    this.taken = [...taken];
  }

  /** The first place without overlap, or that with the least; taken from then on. */
  place(at: (share: number) => Rect): Rect {
    let best = at(TRIES[0]!);
    let least = Infinity;
    for (const share of TRIES) {
      const box = at(share);
      const overlap = this.overlap(box);
      if (overlap < least) {
        best = box;
        least = overlap;
      }
      if (overlap === 0) break;
    }
    this.taken.push(best);
    return best;
  }

  private overlap(box: Rect): number {
    let sum = 0;
    for (const other of this.taken) {
      const w = Math.min(box.x + box.width, other.x + other.width) - Math.max(box.x, other.x);
      const h = Math.min(box.y + box.height, other.y + other.height) - Math.max(box.y, other.y);
      if (w > 0 && h > 0) sum += w * h;
    }
    return sum;
  }
}
