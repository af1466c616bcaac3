/** What ran together in blocks of batching: totals of cells, and bars of kernels. */
import type { Batched } from "../../trace/types";

/** A cell: its calls, the kernels that these ran in, and the most calls of one kernel. */
export interface CellTotal {
  readonly cell: number;
  readonly name: string;
  readonly calls: number;
  readonly kernels: number;
  readonly most: number;
}

/** The cells, those with most calls first. */
export function cellTotals(batched: Batched): CellTotal[] {
  const found = batched.cells.map((name, cell) => ({ cell, name, calls: 0, kernels: 0, most: 0 }));
  batched.cell.forEach((cell, k) => {
    const total = found[cell];
    if (total === undefined) return;
    const calls = batched.calls[k] as number;
    total.calls += calls;
    total.kernels++;
    total.most = Math.max(total.most, calls);
  });
  return found.sort((a, b) => b.calls - a.calls || a.cell - b.cell);
}

/** Of the width that `most` rows have: what a kernel's calls take, and the rows that only fill it up. */
export function barOf(batched: Batched, k: number, most: number): { readonly calls: number; readonly filled: number } {
  const calls = (batched.calls[k] as number) / most;
  return { calls, filled: Math.max(0, (batched.rows[k] as number) / most - calls) };
}

/** The rows of the largest kernel. */
export function mostRows({ rows }: Batched): number {
  return rows.reduce((a, b) => Math.max(a, b), 1);
}

/** Sums over all kernels. */
export function batchedSums(batched: Batched): { readonly calls: number; readonly rows: number; readonly gathered: number; readonly sliced: number } {
  const sum = (column: readonly number[]) => column.reduce((a, b) => a + b, 0);
  return { calls: sum(batched.calls), rows: sum(batched.rows), gathered: sum(batched.gathered), sliced: sum(batched.sliced) };
}

/** "2 runs, by agenda and depth". */
export function toldWays({ ways }: Batched): string {
  const named = [...new Set(ways)].sort();
  const by = named.length > 0 ? `, by ${named.join(" and ")}` : "";
  return `${ways.length.toLocaleString("en")} run${ways.length === 1 ? "" : "s"}${by}`;
}
