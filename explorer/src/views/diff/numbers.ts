/** Two runs in numbers: by pair of nodes, how far values and gradients are apart, and what time and memory became. */
import { optionalNum } from "../../trace/decode";
import type { Model } from "../../trace/model";
import type { TraceDiff } from "../../trace/types";

export interface PairNumbers {
  a: number;
  b: number;
  /** Parts of the first's size; null where they do not compare. */
  value: number | null;
  gradient: number | null;
  /** Microseconds of both passes, and bytes of the buffers that are of the node, each [before, after]. */
  micros: readonly [number, number];
  bytes: readonly [number, number];
}

export type By = "order" | "value" | "gradient" | "time" | "memory";

export function pairNumbers(a: Model, b: Model, { pairs }: TraceDiff): PairNumbers[] {
  if (pairs === undefined) return [];
  const [timeA, timeB] = [microsOf(a), microsOf(b)];
  const [bytesA, bytesB] = [bytesOf(a), bytesOf(b)];
  return pairs.a.map((row, i) => {
    const other = pairs.b[i] as number;
    return {
      a: row,
      b: other,
      value: optionalNum(pairs.value[i]),
      gradient: optionalNum(pairs.gradient[i]),
      micros: [timeA[row] as number, timeB[other] as number],
      bytes: [bytesA[row] as number, bytesB[other] as number],
    };
  });
}

/** The largest difference first, what is not a number before all; pairs without one of this kind are left out. */
export function sortedPairs(rows: readonly PairNumbers[], by: By): PairNumbers[] {
  if (by === "order") return [...rows];
  const size = (row: PairNumbers): number => {
    if (by === "time") return Math.abs(row.micros[1] - row.micros[0]);
    if (by === "memory") return Math.abs(row.bytes[1] - row.bytes[0]);
    const part = row[by];
    return part === null ? 0 : Number.isNaN(part) ? Number.POSITIVE_INFINITY : part;
  };
  return rows.filter((row) => size(row) > 0).sort((x, y) => size(y) - size(x) || x.a - y.a);
}

function microsOf(model: Model): Float64Array {
  const { node, dur } = model.trace.events;
  const sums = new Float64Array(model.nodes);
  node.forEach((n, k) => {
    if (n >= 0) sums[n] = (sums[n] as number) + (dur[k] as number);
  });
  return sums;
}

function bytesOf(model: Model): Float64Array {
  const { node, bytes } = model.trace.buffers;
  const sums = new Float64Array(model.nodes);
  node.forEach((n, i) => {
    if (n >= 0) sums[n] = (sums[n] as number) + (bytes[i] as number);
  });
  return sums;
}
