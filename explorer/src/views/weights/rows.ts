/** The tensors of a file that was opened, as rows of a table. */
import { dtypeOf, kindOf, nameOf, recordedSize, scopePath, shapeOf, detailsOf, type Model } from "../../trace/model";
import { num } from "../../trace/decode";
import type { Details } from "../../trace/types";
import { elements } from "../survey/totals";

export interface WeightRow {
  readonly node: number;
  /** The path of the modules around it, and its name there. */
  readonly path: string;
  readonly bytes: number;
  readonly size: number;
  readonly bad: number;
  readonly details: Details | null;
}

export type Order = "name" | "bytes" | "size" | "bad";

const WIDTHS: Readonly<Record<string, number>> = { bool: 1, bfloat16: 2 };

/** Bytes of one element, by the digits in the dtype's name. */
export function bytesOf(model: Model, node: number): number {
  const dtype = dtypeOf(model, node);
  const bits = /(\d+)$/.exec(dtype)?.[1];
  return elements(shapeOf(model, node)) * (WIDTHS[dtype] ?? (bits === undefined ? 0 : Number(bits) / 8));
}

export function weightsOf(model: Model): WeightRow[] {
  const out: WeightRow[] = [];
  const names = new Map<number, string>();
  for (let node = 0; node < model.nodes; node++) {
    const kind = kindOf(model, node);
    if ((kind !== "param" && kind !== "const") || (kind === "const" && (model.valueCode[node] ?? 0) === 0)) continue;
    const details = detailsOf(model, node, false);
    const scope = model.trace.nodes.scope[node] as number;
    // Parameters of a program are called by their whole path already.
    if (!names.has(scope)) names.set(scope, model.edges > 0 ? "" : scopePath(model, scope).map((part) => `${part}.`).join(""));
    out.push({
      node,
      path: `${names.get(scope) as string}${nameOf(model, node)}`,
      bytes: bytesOf(model, node),
      size: recordedSize(model, node, false) ?? Number.NaN,
      bad: details === null ? 0 : details.nan + details.inf,
      details,
    });
  }
  return out;
}

export function ordered(rows: readonly WeightRow[], by: Order): readonly WeightRow[] {
  if (by === "name") return rows;
  const key = (row: WeightRow) => (Number.isNaN(row[by]) ? -1 : row[by]);
  return [...rows].sort((a, b) => key(b) - key(a));
}

const HIGH = 20;
const STEP = 5;

/** A histogram as the path of its bars, so many units wide. */
export function bars(details: Details): { path: string; width: number; zero: number | null } {
  const most = Math.max(1, ...details.hist);
  const path = details.hist
    .map((n, i) => (n === 0 ? "" : `M${i * STEP} ${HIGH}v${(-Math.max(1, (n / most) * HIGH)).toFixed(1)}h${STEP - 1}V${HIGH}z`))
    .join("");
  const width = STEP * details.hist.length;
  const [min, max] = [num(details.min), num(details.max)];
  return { path, width, zero: min < 0 && max > 0 ? (-min / (max - min)) * width : null };
}
