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

/** Wrapping begins when the picture is this much wider than asked for; rows are never wider than this where they must be broken. */
const SLACK = [1.5, 1.2] as const;
/** A break costs this much of a row for every line it cuts beyond the first. */
const CUT_COST = 0.35;
/** And every row this much, so that of equally good breaks the fewest are made. */
const ROW_COST = 0.01;
/** Pictures whose every break would cut more lines than this are not text; where rows must be broken, more are let pass. */
const MOST_CUTS = [6, 24] as const;
/** Pages are about this high for their width, and rows must make what is on them larger by this much. */
const PAGE = 0.6;
const GAIN = 1.1;

/**
 * The row of each rank: rows near the wished width, few lines cut (the least sum of squared misses, as in
 * Knuth and Plass 1981). Null where the picture fits, or is too tangled to be read in rows.
 */
export function breakRows(graph: Proper, columns: Columns, options: LayoutOptions): Int32Array | null {
  const { ranks } = graph;
  const { wrapWidth, wrapStrictly, rankGap, edgeGap } = options;
  const mostCuts = MOST_CUTS[wrapStrictly ? 1 : 0];
  const end = (r: number) => columns.left[r]! + columns.width[r]!;
  if (ranks < (wrapStrictly ? 2 : 4) || end(ranks - 1) <= wrapWidth * SLACK[wrapStrictly ? 1 : 0]) return null;
  const lines = new Int32Array(ranks);
  for (const u of graph.tail) lines[graph.rank[u]!]!++;
  const bordered = (r: number) => graph.rows[r]!.every((v) => graph.thin[v] === 1);
  const best = new Float64Array(ranks + 1).fill(Infinity);
  const from = new Int32Array(ranks + 1).fill(-1);
  best[0] = 0;
  for (let stop = 1; stop <= ranks; stop++) {
    // A border with its ports is no row by itself.
    if ((stop === 1 && bordered(0)) || (stop === ranks - 1 && bordered(stop))) continue;
    const cut = stop === ranks ? 1 : lines[stop - 1]!;
    if (cut > mostCuts) continue;
    for (let begin = stop - 1; begin >= 0; begin--) {
      // The lines that go on in other rows turn beside them.
      const turns = !wrapStrictly || (begin === 0 && stop === ranks) ? 0 : rankGap + 2 * edgeGap * (Math.max(begin > 0 ? lines[begin - 1]! : 0, stop < ranks ? lines[stop - 1]! : 0) - 1);
      const used = (end(stop - 1) - columns.left[begin]! + turns) / wrapWidth;
      if (used > (wrapStrictly ? SLACK[1] : 1.25) && begin < stop - 1) break;
      if (best[begin] === Infinity) continue;
      const miss = stop === ranks && used < 1 ? 0 : 1 - used;
      const cost = best[begin]! + miss * miss + CUT_COST * (cut - 1) + ROW_COST;
      if (cost < best[stop]!) {
        best[stop] = cost;
        from[stop] = begin;
      }
    }
  }
  if (best[ranks] === Infinity || from[ranks] === 0) return null;
  const rowOf = new Int32Array(ranks);
  for (let stop = ranks; stop > 0; stop = from[stop]!) rowOf[from[stop]!] = 1;
  rowOf[0] = 0;
  for (let r = 1; r < ranks; r++) rowOf[r]! += rowOf[r - 1]!;
  return rowOf;
}

/** Puts the rows below each other. Null where that makes the picture no larger on the page than one long row. */
export function wrapRows(graph: Proper, place: Float64Array, columns: Columns, rowOf: Int32Array, options: LayoutOptions): Wrap | null {
  const { ranks } = graph;
  const { wrapWidth, wrapStrictly, edgeGap, nodeGap, rankGap } = options;
  const end = (r: number) => columns.left[r]! + columns.width[r]!;
  const starts: number[] = [];
  rowOf.forEach((row, r) => {
    if (row === starts.length) starts.push(r);
  });
  const cut: number[][] = Array.from({ length: ranks }, () => []);
  for (let link = 0; link < graph.tail.length; link++) cut[graph.rank[graph.tail[link]!]!]!.push(link);
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
  if (!wrapStrictly && scale(wide, bottom) < GAIN * scale(end(ranks - 1), low - high)) return null;
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
