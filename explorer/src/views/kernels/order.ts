/** Steps of a plan in an order that the reader chooses. */
import type { Kernels } from "../../trace/types";

export type Column = "order" | "time" | "bytes" | "flops";

/** Steps of the plan as they run, or the largest first. */
export function sorted({ list, plan }: Kernels, by: Column): number[] {
  const size: Readonly<Record<Exclude<Column, "order">, (i: number) => number>> = {
    time: (i) => plan.micros[i] ?? -1,
    bytes: (i) => list[plan.kernel[i] as number]?.bytes ?? 0,
    flops: (i) => list[plan.kernel[i] as number]?.flops ?? 0,
  };
  const rows = plan.kernel.map((_, i) => i);
  return by === "order" ? rows : rows.sort((a, b) => size[by](b) - size[by](a) || a - b);
}
