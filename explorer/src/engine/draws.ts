/** Random numbers: xoshiro128** (Blackman and Vigna 2021), the twin of `playground/draws.py`, whose docstring says more. */

export type DrawState = readonly [number, number, number, number];

export class Draws {
  state: DrawState;

  constructor(seed: number) {
    this.state = [1, 2, 3, 4].map((i) => mixed((seed + Math.imul(i, 0x9e3779b9)) >>> 0)) as unknown as DrawState;
  }

  private share(): number {
    let [a, b, c, d] = this.state;
    const found = Math.imul(rotated(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    this.state = [(a ^ d) >>> 0, (b ^ c) >>> 0, (c ^ shifted) >>> 0, rotated(d, 11)];
    return found / 2 ** 32;
  }

  uniform(low: number, high: number, count: number): number[] {
    return Array.from({ length: count }, () => low + (high - low) * this.share());
  }

  normal(count: number): number[] {
    return Array.from({ length: count }, () => {
      const radius = Math.sqrt(-2 * Math.log(1 - this.share()));
      return radius * Math.cos(2 * Math.PI * this.share());
    });
  }

  chosen(count: number, of: number): number[] {
    const found = Array.from({ length: of }, (_, i) => i);
    for (let i = 0; i < count; i++) {
      const j = i + Math.floor(this.share() * (of - i));
      [found[i], found[j]] = [found[j] as number, found[i] as number];
    }
    return found.slice(0, count);
  }
}

function rotated(word: number, by: number): number {
  return ((word << by) | (word >>> (32 - by))) >>> 0;
}

function mixed(word: number): number {
  let w = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  w = Math.imul(w ^ (w >>> 13), 0xc2b2ae35);
  return (w ^ (w >>> 16)) >>> 0;
}
