/** Finds places for small boxes among larger ones. */
import type { Rect } from "../layout/types";

/** Shares of an edge's length at which a chip is tried, the middle first. */
const TRIES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];

/** How much further from the edge than usual; and where its side has no room even then, on the other one. */
const AWAY = [0, 7, 14, 24];
const SIDES = [1, -1] as const;

function overlap(a: Rect, b: Rect): boolean {
  return Math.min(a.x + a.width, b.x + b.width) > Math.max(a.x, b.x) && Math.min(a.y + a.height, b.y + b.height) > Math.max(a.y, b.y);
}

export class Crowd {
  private readonly taken: Rect[];

  constructor(taken: readonly Rect[]) {
    this.taken = [...taken];
  }

  /** The first place without overlap, beside the edge or further from it; taken from then on. Null where there is none. */
  place(at: (share: number, away: number, side: 1 | -1) => Rect): Rect | null {
    for (const side of SIDES) {
      for (const away of AWAY) {
        for (const share of TRIES) {
          const box = at(share, away, side);
          if (this.taken.some((other) => overlap(box, other))) continue;
          this.taken.push(box);
          return box;
        }
      }
    }
    return null;
  }
}
