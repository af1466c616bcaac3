/**
 * Places across the page.
 *
 * Links that should be straight tie their ends together into blocks: the pieces of a long edge, and the
 * longest chain through every node (as Brandes and Köpf 2001 align medians, but by importance). Blocks
 * then pull on each other like springs, and a projection keeps them apart, in order: separation
 * constraints satisfied by merging violated pairs (Dwyer, Marriott, Stuckey 2006), which on a
 * single rank is the pool-adjacent-violators algorithm.
 */
import type { Depths } from "./ranks";
import type { Proper } from "./proper";
import type { LayoutOptions } from "./types";

const ROUNDS = 14;
/** Leaves go where they are used, not the other way around: their links are this weak. */
const LEAF_PULL = 0.01;
/** How hard a block without links is to push aside. */
const FREE = 1e-4;

/**
 * Middle of every node across. Where the picture is broken into rows, `rowOf` says in which row each rank
 * stands, and links from row to row neither pull nor are straight.
 */
export function placeRows(graph: Proper, depth: Depths, options: LayoutOptions, rowOf: Int32Array | null): Float64Array {
  const within = (link: number) => rowOf === null || rowOf[graph.rank[graph.tail[link]!]!] === rowOf[graph.rank[graph.head[link]!]!];
  const blocks = blocksOf(graph, straightLinks(graph, depth, within));
  const constraints = separations(graph, blocks, options);
  const springs = springsOf(graph, blocks, depth, within);
  const at = new Float64Array(blocks.count);
  const wish = new Float64Array(blocks.count);
  at.set(settled(constraints, wish, springs.weight));
  const rounds = graph.count > 20_000 ? 2 : graph.count > 2_000 ? 4 : ROUNDS;
  for (let round = 0; round < rounds; round++) {
    // Two rounds carry wishes through the whole graph, from either side; later ones let what stands now relax.
    const sides = round === 0 ? 1 : round === 1 ? 2 : 3;
    wish.set(at);
    const seen = round < 2 ? wish : at;
    const step = round < 2 ? 1 : 0.6;
    const count = springs.order.length;
    for (let i = 0; i < count; i++) {
      const b = springs.order[round % 2 === 0 ? i : count - 1 - i]!;
      let sum = 0;
      let weight = 0;
      for (let k = springs.start[b]!; k < springs.start[b + 1]!; k++) {
        if ((springs.side[k]! & sides) === 0) continue;
        sum += springs.pull[k]! * (seen[springs.other[k]!]! + springs.shift[k]!);
        weight += springs.pull[k]!;
      }
      if (weight > 0) wish[b] = at[b]! + step * (sum / weight - at[b]!);
    }
    at.set(settled(constraints, wish, springs.weight));
  }
  for (let b = 0; b < blocks.count; b++) at[b] = Math.round(at[b]!);
  straighten(constraints, springs, at, options.nodeGap / 2);
  const place = new Float64Array(graph.count);
  for (let v = 0; v < graph.count; v++) place[v] = at[blocks.of[v]!]! + blocks.offset[v]!;
  return place;
}

/** Blocks with more links than this have no one link that asks to be straight. */
const FEW = 8;

/** Moves blocks by up to `reach` where that makes a link straight, bends none that is, and there is room. */
function straighten(constraints: Separations, springs: Springs, at: Float64Array, reach: number): void {
  const { left, right, gap } = constraints;
  const after: number[][] = Array.from({ length: constraints.count }, () => []);
  for (let k = 0; k < left.length; k++) after[left[k]!]!.push(k);
  for (const b of springs.order) {
    const from = springs.start[b]!;
    const to = springs.start[b + 1]!;
    if (to === from || to - from > FEW) continue;
    let [up, down] = [-Infinity, Infinity];
    for (let k = constraints.first[b]!; k >= 0; k = constraints.next[k]!) up = Math.max(up, at[left[k]!]! + gap[k]!);
    for (const k of after[b]!) down = Math.min(down, at[right[k]!]! - gap[k]!);
    const straightAt = (place: number) => {
      let count = 0;
      for (let k = from; k < to; k++) if (Math.abs(at[springs.other[k]!]! + springs.shift[k]! - place) < 0.5) count++;
      return count;
    };
    let best = at[b]!;
    let most = straightAt(best);
    for (let k = from; k < to; k++) {
      const place = at[springs.other[k]!]! + springs.shift[k]!;
      if (Math.abs(place - at[b]!) > reach || place < up || place > down) continue;
      const count = straightAt(place);
      if (count > most) {
        most = count;
        best = place;
      }
    }
    at[b] = best;
  }
}

// -- which links are straight

/**
 * For each node the link through which its longest chain runs; none where two chains are equally long,
 * so that a product stands in the middle of its two factors. Links between the pieces of a long edge
 * always; links that would cross one that is already straight never.
 */
function straightLinks(graph: Proper, depth: Depths, within: (link: number) => boolean): Uint8Array {
  const links = graph.tail.length;
  const length = new Float64Array(links);
  for (let link = 0; link < links; link++) {
    const u = graph.tail[link]!;
    const v = graph.head[link]!;
    if (graph.busLink[link] || (u >= graph.real && v >= graph.real)) length[link] = Infinity;
    else if (u < graph.real && v < graph.real) length[link] = 1 + depth.before[u]! + depth.after[v]!;
    else length[link] = 0.5;
  }
  const candidate = new Uint8Array(links).fill(1);
  const keepBest = (start: Int32Array, item: Int32Array, ends: Int32Array) => {
    for (let v = 0; v < graph.count; v++) {
      let best = -1;
      let tie = false;
      for (let k = start[v]!; k < start[v + 1]!; k++) {
        const link = item[k]!;
        if (best < 0 || length[link]! > length[best]!) {
          best = link;
          tie = false;
        } else if (length[link] === length[best] && ends[link] !== ends[best]) tie = true;
      }
      for (let k = start[v]!; k < start[v + 1]!; k++) {
        const link = item[k]!;
        if (length[link] !== Infinity && (link !== best || tie)) candidate[link] = 0;
      }
    }
  };
  keepBest(graph.out.start, graph.out.item, graph.head);
  keepBest(graph.into.start, graph.into.item, graph.tail);
  const order: number[] = [];
  for (let link = 0; link < links; link++) if (candidate[link] && within(link)) order.push(link);
  order.sort((a, b) => graph.busLink[b]! - graph.busLink[a]! || (length[a] === length[b] ? a - b : length[a]! > length[b]! ? -1 : 1));
  return withoutCrossings(graph, order);
}

/** Takes links in the given order, those that cross none taken before and whose ends are still free. */
function withoutCrossings(graph: Proper, order: readonly number[]): Uint8Array {
  const position = new Int32Array(graph.count);
  const base = new Int32Array(graph.rows.length);
  let total = 0;
  graph.rows.forEach((row, r) => {
    base[r] = total;
    total += row.length;
    for (let i = 0; i < row.length; i++) position[row[i]!] = i;
  });
  // Per rank a Fenwick tree of the lowest head below, and of the highest head above, a tail's place.
  const most = new Int32Array(total).fill(-1);
  const least = new Int32Array(total).fill(0x7fffffff);
  const taken = new Uint8Array(graph.tail.length);
  const used = new Uint8Array(graph.count);
  for (const link of order) {
    const u = graph.tail[link]!;
    const v = graph.head[link]!;
    if (used[u]! & 1 || used[v]! & 2) continue;
    const r = graph.rank[u]!;
    const size = graph.rows[r]!.length;
    const p = position[u]!;
    const q = position[v]!;
    let crosses = false;
    for (let i = p; i > 0 && !crosses; i &= i - 1) crosses = most[base[r]! + i - 1]! > q;
    for (let i = size - 1 - p; i > 0 && !crosses; i &= i - 1) crosses = least[base[r]! + i - 1]! < q;
    if (crosses) continue;
    taken[link] = 1;
    used[u]! |= 1;
    used[v]! |= 2;
    for (let i = p + 1; i <= size; i += i & -i) most[base[r]! + i - 1] = Math.max(most[base[r]! + i - 1]!, q);
    for (let i = size - p; i <= size; i += i & -i) least[base[r]! + i - 1] = Math.min(least[base[r]! + i - 1]!, q);
  }
  return taken;
}

// -- blocks and what holds between them

interface Blocks {
  readonly count: number;
  readonly of: Int32Array;
  /** Place of a node within its block. */
  readonly offset: Float64Array;
}

function blocksOf(graph: Proper, straight: Uint8Array): Blocks {
  const of = new Int32Array(graph.count).fill(-1);
  const offset = new Float64Array(graph.count);
  const through = new Int32Array(graph.count).fill(-1);
  for (let link = 0; link < straight.length; link++) if (straight[link]) through[graph.head[link]!] = link;
  let count = 0;
  for (const row of graph.rows) {
    for (const v of row) {
      const link = through[v]!;
      if (link < 0) of[v] = count++;
      else {
        const u = graph.tail[link]!;
        of[v] = of[u]!;
        offset[v] = offset[u]! + graph.tailPort[link]! - graph.headPort[link]!;
      }
    }
  }
  return { count, of, offset };
}

interface Separations {
  readonly count: number;
  /** Constraint k: right[k] at least gap[k] below left[k]; those of one right block are chained by `next`. */
  readonly left: Int32Array;
  readonly right: Int32Array;
  readonly gap: Float64Array;
  readonly first: Int32Array;
  readonly next: Int32Array;
  /** Blocks, every left one before its right ones. */
  readonly order: Int32Array;
}

function separations(graph: Proper, blocks: Blocks, options: LayoutOptions): Separations {
  const left: number[] = [];
  const right: number[] = [];
  const gap: number[] = [];
  for (const row of graph.rows) {
    for (let i = 1; i < row.length; i++) {
      const a = row[i - 1]!;
      const b = row[i]!;
      const room = ((graph.thin[a] ? options.edgeGap : options.nodeGap) + (graph.thin[b] ? options.edgeGap : options.nodeGap)) / 2;
      left.push(blocks.of[a]!);
      right.push(blocks.of[b]!);
      gap.push(blocks.offset[a]! + graph.below[a]! + room + graph.above[b]! - blocks.offset[b]!);
    }
  }
  const first = new Int32Array(blocks.count).fill(-1);
  const next = new Int32Array(left.length).fill(-1);
  const waiting = new Int32Array(blocks.count);
  const firstRight = new Int32Array(blocks.count).fill(-1);
  const nextRight = new Int32Array(left.length).fill(-1);
  for (let k = left.length - 1; k >= 0; k--) {
    next[k] = first[right[k]!]!;
    first[right[k]!] = k;
    nextRight[k] = firstRight[left[k]!]!;
    firstRight[left[k]!] = k;
    waiting[right[k]!]!++;
  }
  const order = new Int32Array(blocks.count);
  let filled = 0;
  for (let b = 0; b < blocks.count; b++) if (waiting[b] === 0) order[filled++] = b;
  for (let i = 0; i < filled; i++) {
    for (let k = firstRight[order[i]!]!; k >= 0; k = nextRight[k]!) {
      if (--waiting[right[k]!]! === 0) order[filled++] = right[k]!;
    }
  }
  return {
    count: blocks.count,
    left: Int32Array.from(left),
    right: Int32Array.from(right),
    gap: Float64Array.from(gap),
    first,
    next,
    order,
  };
}

/**
 * Feasible places near the wished ones. Blocks are taken in order; while a group overlaps what lies above
 * it, the two become one group, which stands at the weighted mean of its members' wishes.
 */
function settled(constraints: Separations, wish: Float64Array, weight: Float64Array): Float64Array {
  const { count, left, right, gap, order } = constraints;
  const group = new Int32Array(count);
  const shift = new Float64Array(count);
  const place = new Float64Array(count);
  const mass = new Float64Array(count);
  const next = constraints.next.slice();
  const pending = constraints.first.slice();
  const members: (number[] | null)[] = new Array<number[] | null>(count).fill(null);
  for (const b of order) {
    group[b] = b;
    place[b] = wish[b]!;
    mass[b] = weight[b]!;
    let g = b;
    for (;;) {
      let worst = -1;
      let violation = 1e-6;
      let before = -1;
      for (let k = pending[g]!; k >= 0; k = next[k]!) {
        const l = left[k]!;
        const lg = group[l]!;
        if (lg === g) {
          if (before < 0) pending[g] = next[k]!;
          else next[before] = next[k]!;
          continue;
        }
        before = k;
        const over = place[lg]! + shift[l]! + gap[k]! - place[g]! - shift[right[k]!]!;
        if (over > violation) {
          violation = over;
          worst = k;
        }
      }
      if (worst < 0) break;
      const l = left[worst]!;
      const other = group[l]!;
      // What a member of `other` must be moved by to be counted from the middle of g.
      const moved = shift[right[worst]!]! - gap[worst]! - shift[l]!;
      const ours = members[g] ?? [g];
      const theirs = members[other] ?? [other];
      const keepOurs = ours.length >= theirs.length;
      const into = keepOurs ? g : other;
      const by = keepOurs ? moved : -moved;
      const from = keepOurs ? theirs : ours;
      const gone = keepOurs ? other : g;
      place[into] = (place[into]! * mass[into]! + (place[gone]! - by) * mass[gone]!) / (mass[into]! + mass[gone]!);
      mass[into]! += mass[gone]!;
      const all = keepOurs ? ours : theirs;
      for (const v of from) {
        group[v] = into;
        shift[v]! += by;
        all.push(v);
      }
      members[into] = all;
      members[gone] = null;
      next[before] = pending[other]!;
      pending[into] = pending[g]!;
      g = into;
    }
  }
  const found = new Float64Array(count);
  for (let b = 0; b < count; b++) found[b] = place[group[b]!]! + shift[b]!;
  return found;
}

// -- springs

interface Springs {
  readonly start: Int32Array;
  readonly other: Int32Array;
  readonly shift: Float64Array;
  readonly pull: Float64Array;
  /** 1: the other end lies before this one, 2: after it. */
  readonly side: Uint8Array;
  /** How hard a block is to push aside: the sum of its pulls, so that groups are not moved by forces within. */
  readonly weight: Float64Array;
  /** Blocks by the rank in which they begin. */
  readonly order: Int32Array;
}

function springsOf(graph: Proper, blocks: Blocks, depth: Depths, within: (link: number) => boolean): Springs {
  const start = new Int32Array(blocks.count + 1);
  const links = graph.tail.length;
  for (let link = 0; link < links; link++) {
    const a = blocks.of[graph.tail[link]!]!;
    const b = blocks.of[graph.head[link]!]!;
    if (a === b || !within(link)) continue;
    start[a + 1]!++;
    start[b + 1]!++;
  }
  for (let b = 0; b < blocks.count; b++) start[b + 1]! += start[b]!;
  const total = start[blocks.count]!;
  const fill = start.slice();
  const other = new Int32Array(total);
  const shift = new Float64Array(total);
  const pull = new Float64Array(total);
  const side = new Uint8Array(total);
  const weight = new Float64Array(blocks.count).fill(FREE);
  for (let link = 0; link < links; link++) {
    const u = graph.tail[link]!;
    const v = graph.head[link]!;
    const a = blocks.of[u]!;
    const b = blocks.of[v]!;
    if (a === b || !within(link)) continue;
    const strength = !graph.thin[u] && depth.before[u] === 0 ? LEAF_PULL : 1;
    weight[a]! += strength;
    weight[b]! += strength;
    const distance = blocks.offset[u]! + graph.tailPort[link]! - blocks.offset[v]! - graph.headPort[link]!;
    let k = fill[a]!++;
    other[k] = b;
    shift[k] = -distance;
    pull[k] = strength;
    side[k] = 2;
    k = fill[b]!++;
    other[k] = a;
    shift[k] = distance;
    pull[k] = strength;
    side[k] = 1;
  }
  const order = new Int32Array(blocks.count);
  const seen = new Uint8Array(blocks.count);
  let filled = 0;
  for (const row of graph.rows) {
    for (const v of row) {
      const b = blocks.of[v]!;
      if (seen[b]) continue;
      seen[b] = 1;
      order[filled++] = b;
    }
  }
  return { start, other, shift, pull, side, weight, order };
}
