/** The error function, to full precision of a double. */

/**
 * 1 - erf(x). Below 2.5 by the Maclaurin series of erf (DLMF 7.6.2, all terms of one sign), above by the continued
 * fraction (DLMF 7.9.1) with as many terms as its slowest point needs.
 */
export function erfc(x: number): number {
  if (x < 0) return 2 - erfc(-x);
  if (x < 2.5) return 1 - erfSeries(x);
  if (x > 27.3) return Number.isNaN(x) ? x : 0;
  let tail = x;
  for (let k = 80; k > 0; k--) tail = x + k / 2 / tail;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * tail);
}

export function erf(x: number): number {
  return Math.abs(x) < 2.5 ? erfSeries(x) : 1 - erfc(x);
}

/** exp(-x²) times a sum of positive terms (DLMF 7.6.2): nothing cancels. */
function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
