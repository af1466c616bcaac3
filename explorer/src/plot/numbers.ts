/** How the playground writes numbers: two decimals where they are compared from step to step. */
import { shownNumber } from "../format";

/** Two decimals; two digits of what is smaller, a power of ten where neither says anything. */
export function fixed(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || size >= 1e4) return shownNumber(value, 3);
  if (size < 0.1 && size > 0) return shownNumber(value, 2);
  return `${value < 0 ? "−" : ""}${size.toFixed(2)}`;
}

export function plainNumber(value: number): string {
  return shownNumber(value, 3);
}

/** Negative numbers in brackets, as one writes them after a sign. */
export function signedNumber(value: number): string {
  return value < 0 ? `(${fixed(value)})` : fixed(value);
}
