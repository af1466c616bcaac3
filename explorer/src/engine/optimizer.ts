/** The methods of the playground, as Wengert's SGD and Adam take their steps. */

type Numbers = Float32Array | Float64Array;

/** What an optimiser keeps of each parameter, by Wengert's names. */
export type Buffers = Record<string, Numbers | number>;

export const MOMENTUM = 0.9;
const [BETA1, BETA2, EPSILON] = [0.9, 0.999, 1e-8];

export function takeStep(method: string, rate: number, parameters: readonly Numbers[], gradients: readonly Numbers[], state: Buffers[]): void {
  parameters.forEach((p, i) => {
    const g = gradients[i] as Numbers;
    const kept = (state[i] ??= {});
    if (method === "plain") {
      for (let k = 0; k < p.length; k++) p[k] = (p[k] as number) - rate * (g[k] as number);
      return;
    }
    const step = ((kept.step as number | undefined) ?? 0) + 1;
    kept.step = step;
    if (method === "momentum") {
      const first = kept.momentum_buffer === undefined;
      const velocity = (kept.momentum_buffer ??= p.map(() => 0)) as Numbers;
      for (let k = 0; k < p.length; k++) {
        velocity[k] = (first ? 0 : MOMENTUM * (velocity[k] as number)) + (g[k] as number);
        p[k] = (p[k] as number) - rate * (velocity[k] as number);
      }
      return;
    }
    const mean = (kept.exp_avg ??= p.map(() => 0)) as Numbers;
    const square = (kept.exp_avg_sq ??= p.map(() => 0)) as Numbers;
    const [correction1, correction2] = [1 - BETA1 ** step, Math.sqrt(1 - BETA2 ** step)];
    for (let k = 0; k < p.length; k++) {
      const slope = g[k] as number;
      mean[k] = BETA1 * (mean[k] as number) + (1 - BETA1) * slope;
      square[k] = BETA2 * (square[k] as number) + (1 - BETA2) * slope * slope;
      p[k] = (p[k] as number) - ((rate / correction1) * (mean[k] as number)) / (Math.sqrt(square[k] as number) / correction2 + EPSILON);
    }
  });
}

export function copied(state: readonly Buffers[]): Buffers[] {
  return state.map((kept) => Object.fromEntries(Object.entries(kept).map(([name, v]) => [name, typeof v === "number" ? v : v.slice()])));
}
