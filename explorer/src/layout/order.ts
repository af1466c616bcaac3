/**
 * The order of nodes within their ranks: few crossings.
 *
 * Sweeps of barycentres and medians from several starts (Sugiyama, Tagawa, Toda 1981; Gansner et al.
 * 1993), then sifting: each node in turn tries every place of its rank (Matuszewski, Schönfeld,
 * Molitor 1999). What counts as work is counted, not timed, so equal graphs give equal pictures.
 */
import { sortByKey } from "./csr";
import type { Proper } from "./proper";

/** Elementary steps to spend: a small graph is worth trying again from other starts, a large one is not. */
const EFFORT = 300_000;
const SWEEPS = 12;
/** Sweeps without any gain after which a start is given up. */
const PATIENCE = 3;
const STARTS = 12;

/** Orders the rows of the graph in place; returns how many crossings are left. */
export function orderRows(graph: Proper): number {
  return new Search(graph).run();
}

class Search {
  private readonly graph: Proper;
  private readonly position: Float64Array;
  private readonly key: Float64Array;
  private readonly scratch: Int32Array;
  private readonly lower: Float64Array;
  private readonly merged: Float64Array;
  /** Where links meet their ends, as a share of one place in the order: only fixed ports differ from 0. */
  private readonly tailShare: Float64Array;
  private readonly headShare: Float64Array;
  /** Ports of the links of one node while they are sorted. */
  private readonly scratchShare: number[] = [];
  private work = 0;

  constructor(graph: Proper) {
    this.graph = graph;
    const widest = graph.rows.reduce((most, row) => Math.max(most, row.length), 0);
    const links = graph.tail.length;
    this.position = new Float64Array(graph.count);
    this.key = new Float64Array(graph.count);
    this.scratch = new Int32Array(widest + 1);
    this.lower = new Float64Array(links);
    this.merged = new Float64Array(links);
    this.tailShare = shares(graph, graph.tail, graph.tailPort);
    this.headShare = shares(graph, graph.head, graph.headPort);
  }

  run(): number {
    const { graph } = this;
    const pass = graph.tail.length + graph.count;
    this.walkOrder();
    let best = this.crossings();
    let kept = graph.rows.map((row) => row.slice());
    let seed = 1;
    for (let start = 0; start < STARTS && best > 0; start++) {
      if (start > 0 && this.work > EFFORT) break;
      if (start > 1) seed = this.shuffle(seed);
      else if (start === 1) this.restore(kept);
      let stale = 0;
      let here = Infinity;
      for (let sweep = 0; sweep < SWEEPS && stale < PATIENCE; sweep++) {
        this.sweep(sweep % 2 === 0, start % 2 === 1, (sweep & 2) !== 0);
        const found = this.crossings();
        this.work += pass * 4;
        stale = found < here ? 0 : stale + 1;
        here = Math.min(here, found);
        if (found < best) {
          best = found;
          kept = graph.rows.map((row) => row.slice());
        }
        if (best === 0 || (start === 0 && this.work > EFFORT * 8)) break;
      }
      if (best > 0 && this.work < EFFORT) {
        const found = this.settle();
        if (found < best) {
          best = found;
          kept = graph.rows.map((row) => row.slice());
        }
      }
    }
    this.restore(kept);
    if (best > 0) {
      this.work = Math.min(this.work, EFFORT / 2);
      best = this.settle();
    }
    return best;
  }

  private restore(rows: Int32Array[]): void {
    rows.forEach((row, r) => {
      this.graph.rows[r]!.set(row);
      this.number(r);
    });
  }

  private number(r: number): void {
    const row = this.graph.rows[r]!;
    for (let i = 0; i < row.length; i++) this.position[row[i]!] = i;
  }

  /** Order of a walk from the results back through the operands: trees come out without crossings, operands in order. */
  private walkOrder(): void {
    const { count, out, into, tail, rank, rows } = this.graph;
    const seen = new Uint8Array(count);
    const fill = new Int32Array(rows.length);
    const stack: number[] = [];
    for (let r = rows.length - 1; r >= 0; r--) {
      for (const root of rows[r]!.slice()) {
        if (seen[root] || out.start[root]! < out.start[root + 1]!) continue;
        stack.push(root);
        while (stack.length > 0) {
          const v = stack.pop()!;
          if (seen[v]) continue;
          seen[v] = 1;
          this.key[v] = fill[rank[v]!]!++;
          for (let k = into.start[v + 1]! - 1; k >= into.start[v]!; k--) stack.push(tail[into.item[k]!]!);
        }
      }
    }
    for (let v = 0; v < count; v++) if (this.graph.onBus[v]) this.key[v] = -1;
    for (let r = 0; r < rows.length; r++) {
      sortByKey(rows[r]!, 0, rows[r]!.length, this.key, this.scratch);
      this.number(r);
    }
  }

  private shuffle(seed: number): number {
    let state = seed;
    for (let r = 0; r < this.graph.rows.length; r++) {
      const row = this.graph.rows[r]!;
      for (const v of row) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        this.key[v] = this.graph.onBus[v] ? -1 : state;
      }
      sortByKey(row, 0, row.length, this.key, this.scratch);
      this.number(r);
    }
    return state;
  }

  /** One sweep over the ranks, each sorted by the places of its neighbours in the rank before. */
  private sweep(forward: boolean, median: boolean, fromBelow: boolean): void {
    const { rows, out, into, tail, head } = this.graph;
    for (let i = 1; i < rows.length; i++) {
      const r = forward ? i : rows.length - 1 - i;
      const row = rows[r]!;
      if (fromBelow) row.reverse();
      for (let j = 0; j < row.length; j++) {
        const v = row[j]!;
        const side = forward ? into : out;
        const other = forward ? tail : head;
        const share = forward ? this.tailShare : this.headShare;
        const from = side.start[v]!;
        const to = side.start[v + 1]!;
        if (this.graph.onBus[v]) this.key[v] = -1;
        else if (from === to) this.key[v] = this.position[v]!;
        else if (median) this.key[v] = this.medianOf(side.item, from, to, other, share);
        else {
          let sum = 0;
          for (let k = from; k < to; k++) sum += this.position[other[side.item[k]!]!]! + share[side.item[k]!]!;
          this.key[v] = sum / (to - from);
        }
      }
      sortByKey(row, 0, row.length, this.key, this.scratch);
      this.number(r);
    }
  }

  private medianOf(items: Int32Array, from: number, to: number, other: Int32Array, share: Float64Array): number {
    const places = this.merged.subarray(0, to - from);
    for (let k = from; k < to; k++) places[k - from] = this.position[other[items[k]!]!]! + share[items[k]!]!;
    places.sort();
    const middle = places.length >> 1;
    return places.length % 2 === 1 ? places[middle]! : (places[middle - 1]! + places[middle]!) / 2;
  }

  crossings(): number {
    let sum = 0;
    for (let r = 0; r + 1 < this.graph.rows.length; r++) sum += this.crossingsAfter(r);
    return sum;
  }

  /** Crossings between rank r and the next: the inversions of the heads once the links are sorted by their tails. */
  private crossingsAfter(r: number): number {
    const { rows, out, head } = this.graph;
    const lower = this.lower;
    let filled = 0;
    for (const v of rows[r]!) {
      const from = out.start[v]!;
      const to = out.start[v + 1]!;
      const group = filled;
      for (let k = from; k < to; k++) {
        const link = out.item[k]!;
        const place = this.position[head[link]!]! + this.headShare[link]!;
        const share = this.tailShare[link]!;
        let j = filled - 1;
        while (j >= group) {
          const before = this.scratchShare[j - group]!;
          if (before < share || (before === share && lower[j]! <= place)) break;
          lower[j + 1] = lower[j]!;
          this.scratchShare[j - group + 1] = before;
          j--;
        }
        lower[j + 1] = place;
        this.scratchShare[j - group + 1] = share;
        filled++;
      }
    }
    return inversions(lower, this.merged, 0, filled);
  }

  /** Sifts until no node finds a better place; returns the crossings that are left. */
  private settle(): number {
    const { rows } = this.graph;
    let left = this.crossings();
    let gain = 1;
    while (gain > 0 && this.work < EFFORT) {
      gain = 0;
      for (let r = 0; r < rows.length && this.work < EFFORT; r++) {
        for (const v of rows[r]!.slice()) gain += this.sift(v, r);
      }
      left -= gain;
    }
    return left;
  }

  /** Moves v to the place of its rank with the fewest crossings; returns how many it saved. */
  private sift(v: number, r: number): number {
    const row = this.graph.rows[r]!;
    const { onBus } = this.graph;
    if (onBus[v]) return 0;
    const at = this.position[v]!;
    let best = 0;
    let place = at;
    let sum = 0;
    for (let i = at - 1; i >= 0 && !onBus[row[i]!]; i--) {
      sum += this.exchange(row[i]!, v);
      if (sum < best) {
        best = sum;
        place = i;
      }
    }
    sum = 0;
    for (let i = at + 1; i < row.length; i++) {
      sum += this.exchange(v, row[i]!);
      if (sum < best) {
        best = sum;
        place = i;
      }
    }
    if (place < at) row.copyWithin(place + 1, place, at);
    else row.copyWithin(at, at + 1, place + 1);
    row[place] = v;
    if (place !== at) this.number(r);
    return -best;
  }

  /** Change of crossings when neighbours a, b change places. */
  private exchange(a: number, b: number): number {
    const { into, out, tail, head } = this.graph;
    return (
      this.exchangeSide(a, b, into.start, into.item, tail, this.tailShare) +
      this.exchangeSide(a, b, out.start, out.item, head, this.headShare)
    );
  }

  private exchangeSide(a: number, b: number, start: Int32Array, item: Int32Array, other: Int32Array, share: Float64Array): number {
    let change = 0;
    const endA = start[a + 1]!;
    const endB = start[b + 1]!;
    this.work += 2 + (endA - start[a]!) * (endB - start[b]!);
    for (let i = start[a]!; i < endA; i++) {
      const p = this.position[other[item[i]!]!]! + share[item[i]!]!;
      for (let j = start[b]!; j < endB; j++) {
        const q = this.position[other[item[j]!]!]! + share[item[j]!]!;
        if (p < q) change++;
        else if (p > q) change--;
      }
    }
    return change;
  }
}

function shares(graph: Proper, ends: Int32Array, ports: Float64Array): Float64Array {
  const share = new Float64Array(ports.length);
  for (let link = 0; link < ports.length; link++) {
    if (ports[link] === 0) continue;
    const room = Math.max(graph.above[ends[link]!]!, graph.below[ends[link]!]!, Math.abs(ports[link]!));
    share[link] = (0.49 * ports[link]!) / room;
  }
  return share;
}

/** Number of pairs out of order in `values[from..to)`, which is sorted on the way (merge sort). */
export function inversions(values: Float64Array, scratch: Float64Array, from: number, to: number): number {
  const size = to - from;
  if (size < 2) return 0;
  if (size <= 12) {
    let count = 0;
    for (let i = from + 1; i < to; i++) {
      const value = values[i]!;
      let j = i - 1;
      while (j >= from && values[j]! > value) {
        values[j + 1] = values[j]!;
        j--;
      }
      count += i - 1 - j;
      values[j + 1] = value;
    }
    return count;
  }
  const middle = from + (size >> 1);
  let count = inversions(values, scratch, from, middle) + inversions(values, scratch, middle, to);
  if (values[middle - 1]! <= values[middle]!) return count;
  scratch.set(values.subarray(from, middle), 0);
  const left = middle - from;
  let i = 0;
  let j = middle;
  for (let out = from; i < left; out++) {
    if (j < to && values[j]! < scratch[i]!) {
      values[out] = values[j++]!;
      count += left - i;
    } else values[out] = scratch[i++]!;
  }
  return count;
}
