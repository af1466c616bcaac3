/**
 * Paths between tensors, as the engine told them: what each contributes to a gradient, all of it or one element.
 *
 * A path between numbers has a product of slopes, which the page computes itself (`paths.ts`). Between tensors slopes
 * are matrices, and a path's contribution is the result's gradient pulled back along it: the engine's work.
 */
import { shownNumber } from "../../format";
import { num, optionalNum } from "../../trace/decode";
import { detailsOf, recordedGradient, type Model } from "../../trace/model";
import type { TensorPaths } from "../../trace/types";

export interface TensorPath {
  /** Rows of edges, from the node to the result; none of all paths together that are not told apart. */
  readonly edges: readonly number[];
  /** Typical size of the contribution's elements. */
  readonly rms: number;
  /** Part of the gradient; null of a gradient of zeros. */
  readonly share: number | null;
  /** A selection lets nothing through this way. */
  readonly absent: boolean;
  /** The contribution's elements, where they are few. */
  readonly values: readonly number[] | null;
}

export interface TensorSummary {
  readonly to: number;
  readonly count: number;
  /** The largest first. */
  readonly paths: readonly TensorPath[];
  /** All others together. */
  readonly others: TensorPath | null;
  /** Whether the sum over all paths is the recorded gradient, and how far any element is from it. */
  readonly equal: boolean;
  readonly difference: number;
  /** The gradient's elements, where they are few. */
  readonly gradient: readonly number[] | null;
}

/** The paths from a node to the result; null where none were told. */
export function tensorPathsOf(model: Model, from: number, table: TensorPaths | undefined = model.trace.paths): TensorSummary | null {
  const at = table?.nodes.row.indexOf(from) ?? -1;
  if (table === undefined || at < 0) return null;
  const { count, first, shown, equal, difference } = table.nodes;
  const [start, length, all] = [first[at] as number, shown[at] as number, count[at] as number];
  const paths = Array.from({ length }, (_, i) => pathAt(table, start + i));
  const last = paths[0]?.edges.at(-1);
  if (last === undefined) return null;
  return {
    to: model.dst[last] as number,
    count: all,
    paths,
    others: all > length ? pathAt(table, start + length) : null,
    equal: equal[at] as boolean,
    difference: num(difference[at] ?? 0),
    gradient: gradientOf(model, from),
  };
}

function pathAt({ list }: TensorPaths, entry: number): TensorPath {
  const edges: number[] = [];
  for (let at = entry; at >= 0 && (list.edge[at] as number) >= 0; at = list.next[at] as number) {
    edges.push(list.edge[at] as number);
  }
  return {
    edges,
    rms: optionalNum(list.rms[entry]) ?? Number.NaN,
    share: list.share[entry] ?? null,
    absent: list.absent[entry] === 1,
    values: list.values[entry]?.map(num) ?? null,
  };
}

function gradientOf(model: Model, node: number): readonly number[] | null {
  const one = recordedGradient(model, node);
  return one !== null ? [one] : (detailsOf(model, node, true)?.values?.map(num) ?? null);
}

/** What a path gives of the gradient, or of one element of it (-1: all); null where that is not known. */
export function shareOf(path: TensorPath, gradient: readonly number[] | null, element: number): number | null {
  if (element < 0) return path.share;
  const [part, whole] = [path.values?.[element], gradient?.[element]];
  if (part === undefined || whole === undefined || whole === 0 || !Number.isFinite(part / whole)) return null;
  return part / whole;
}

/** A part of a whole. Where others take away it may be more than the whole, and many times it. */
export function shownShare(share: number): string {
  if (Math.abs(share) >= 10) return `${shownNumber(share, 2)} times`;
  const percent = share * 100;
  return `${shownNumber(Math.abs(percent) < 10 ? percent : Math.round(percent), 2)}%`;
}

/** The same in a sentence: "61% of the sum", "12 times the sum". */
export function shownPart(share: number, whole: string): string {
  return `${shownShare(share)} ${Math.abs(share) >= 10 ? "" : "of "}${whole}`;
}

/** Steps of a path that are shown, and how many are left out: of a long one those to nodes that are not on every path. */
export interface Steps {
  readonly edges: readonly number[];
  readonly left: number;
}

export function shownSteps(model: Model, path: TensorPath, all: readonly TensorPath[], most: number): Steps {
  const nodeOf = (edge: number) => model.dst[edge] as number;
  const isOperation = (edge: number) => (model.trace.nodes.op[nodeOf(edge)] as number) >= 0;
  const steps = path.edges.filter(isOperation);
  if (steps.length <= most) return { edges: steps.length === 0 ? path.edges : steps, left: 0 };
  const taken = all.map((other) => new Set(other.edges.map(nodeOf)));
  const own = steps.filter((edge) => !taken.every((nodes) => nodes.has(nodeOf(edge))));
  const kept = (own.length === 0 ? steps : own).slice(0, most);
  return { edges: kept, left: steps.length - kept.length };
}

/** Which operand an edge carries to an operation that takes the same one more than once: 1, 2, ...; 0 where it does not. */
export function turnOf(model: Model, edge: number): number {
  const [src, dst] = [model.src[edge] as number, model.dst[edge] as number];
  const same = Array.from(model.operands.edge.subarray(model.operands.start[dst], model.operands.start[dst + 1])).filter(
    (other) => model.src[other] === src,
  );
  return same.length < 2 ? 0 : same.indexOf(edge) + 1;
}

/** A place in a tensor, as programs write it: [1, 2]. */
export function placeOf(shape: readonly number[], element: number): string {
  const at: number[] = [];
  let rest = element;
  for (const size of shape.toReversed()) {
    at.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return `[${at.join(", ")}]`;
}
