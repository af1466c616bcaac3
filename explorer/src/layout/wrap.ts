/** Long chains continue in a new row, like text. */
import type { Columns } from "./layered";
import type { Proper } from "./proper";
import type { Pen } from "./routes";
import type { LayoutOptions } from "./types";

export interface WrapRow {
  /** What to add to the places along and across. */
  readonly dx: number;
  readonly dy: number;
}

export interface Wrap {
  readonly rowOf: Int32Array;
  readonly rows: readonly WrapRow[];
  /** Draws a link that continues in the next row: out to the right, back between the rows, in from the left. */
  carriageReturn(pen: Pen, link: number, right: number, left: number, across: number): void;
}

/** Wrapping begins when the picture is this much wider than asked for. */
const SLACK = 1.5;
/** A break costs this much of a row for every line it cuts beyond the first. */
const CUT_COST = 0.35;
/** Pictures whose every break would cut more lines than this are not text. */
const MOST_CUTS = 6;
/** Pages are about this high for their width, and rows must make what is on them larger by this much. */
const PAGE = 0.6;
const GAIN = 1.1;

/**
 * Chooses the breaks: rows near the wished width, few lines cut (the least sum of squared misses, as in
 * Knuth and Plass 1981). Null where the picture fits, or is too tangled to be read in rows.
 */
export function wrapRows(graph: Proper, place: Float64Array, columns: Columns, options: LayoutOptions): Wrap | null {
  const { ranks } = graph;
  const { wrapWidth, edgeGap, nodeGap, rankGap } = options;
  const end = (r: number) => columns.left[r]! + columns.width[r]!;
  if (ranks < 4 || end(ranks - 1) <= wrapWidth * SLACK) return null;
  const cut: number[][] = Array.from({ length: ranks }, () => []);
  for (let link = 0; link < graph.tail.length; link++) cut[graph.rank[graph.tail[link]!]!]!.push(link);
  const best = new Float64Array(ranks + 1).fill(Infinity);
  const from = new Int32Array(ranks + 1).fill(-1);
  best[0] = 0;
  for (let stop = 1; stop <= ranks; stop++) {
    const lines = stop === ranks ? 1 : cut[stop - 1]!.length;
    if (lines > MOST_CUTS) continue;
    for (let begin = stop - 1; begin >= 0; begin--) {
      const used = (end(stop - 1) - columns.left[begin]!) / wrapWidth;
      if (used > 1.25 && begin < stop - 1) break;
      if (best[begin] === Infinity) continue;
      const miss = stop === ranks && used < 1 ? 0 : 1 - used;
      const cost = best[begin]! + miss * miss + CUT_COST * (lines - 1) + 0.01;
      if (cost < best[stop]!) {
        best[stop] = cost;
        from[stop] = begin;
      }
    }
  }
  if (best[ranks] === Infinity || from[ranks] === 0) return null;
  const starts: number[] = [];
  for (let stop = ranks; stop > 0; stop = from[stop]!) starts.unshift(from[stop]!);
  const rowOf = new Int32Array(ranks);
  starts.forEach((begin, i) => rowOf.fill(i, begin, starts[i + 1] ?? ranks));

  const rows: WrapRow[] = [];
  const gutters: number[] = [];
  const rank = new Map<number, number>();
  let bottom = 0;
  let wide = 0;
  starts.forEach((begin, i) => {
    const stop = starts[i + 1] ?? ranks;
    const [top, low] = extent(graph, place, begin, stop);
    wide = Math.max(wide, end(stop - 1) - columns.left[begin]!);
    rows.push({ dx: -columns.left[begin]!, dy: bottom - top });
    bottom += low - top;
    if (stop === ranks) return;
    // Outermost at the right is lowest between the rows and innermost at the left, so none cross.
    const links = cut[stop - 1]!.slice().sort((a, b) => place[graph.tail[a]!]! - place[graph.tail[b]!]! || place[graph.head[a]!]! - place[graph.head[b]!]! || a - b);
    links.forEach((link, k) => rank.set(link, links.length - 1 - k));
    gutters.push(bottom + nodeGap);
    bottom += 2 * nodeGap + edgeGap * (links.length - 1);
  });
  const [high, low] = extent(graph, place, 0, ranks);
  const scale = (width: number, height: number) => Math.min(wrapWidth / width, (wrapWidth * PAGE) / height);
  if (scale(wide, bottom) < GAIN * scale(end(ranks - 1), low - high)) return null;
  return {
    rowOf,
    rows,
    carriageReturn(pen, link, right, left, across) {
      const row = rowOf[graph.rank[graph.tail[link]!]!]!;
      const k = rank.get(link)!;
      const lines = cut[starts[row + 1]! - 1]!.length;
      const level = gutters[row]! + edgeGap * k;
      const outer = wide + rankGap / 2 + edgeGap * k;
      const inner = -rankGap / 2 - edgeGap * (lines - 1 - k);
      pen.line(right + rows[row]!.dx, pen.height);
      pen.detour(outer, level, (outer + inner) / 2);
      pen.detour(inner, across + rows[row + 1]!.dy, left + rows[row + 1]!.dx);
    },
  };
}

/** Where the nodes of ranks `begin` to `stop` begin and end across. */
function extent(graph: Proper, place: Float64Array, begin: number, stop: number): [number, number] {
  let [top, low] = [Infinity, -Infinity];
  for (let r = begin; r < stop; r++) {
    for (const v of graph.rows[r]!) {
      top = Math.min(top, place[v]! - graph.above[v]!);
      low = Math.max(low, place[v]! + graph.below[v]!);
    }
  }
  return [top, low];
}
