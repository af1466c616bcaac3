/** The loss of a line, mean((w x + b - y)²), as the bowl that it is over w and b. */

export function meanSquare(x: readonly number[], y: readonly number[], w: number, b: number): number {
  return x.reduce((sum, at, i) => sum + (w * at + b - (y[i] as number)) ** 2, 0) / x.length;
}

function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** Where the bowl is lowest. */
export function leastSquares(x: readonly number[], y: readonly number[]): [number, number] {
  const [mx, my] = [mean(x), mean(y)];
  const w = mean(x.map((at, i) => (at - mx) * ((y[i] as number) - my))) / mean(x.map((at) => (at - mx) ** 2));
  return [w, my - w * mx];
}

/** The larger eigenvalue of its Hessian, 2 [[mean x², mean x], [mean x, 1]]. */
export function sharpness(x: readonly number[]): number {
  const [a, c] = [mean(x.map((at) => at * at)), mean(x)];
  return a + 1 + Math.hypot(a - 1, 2 * c);
}
