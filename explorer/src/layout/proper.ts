/** The graph with its long edges cut into links from rank to rank, which ordering and placing work on. */
import { groupBy, type Csr } from "./csr";
import type { Wires } from "./ranks";
import type { LayoutGraph } from "./types";

export interface Proper {
  /** Nodes below `real` are those of the graph; the others hold a long edge where it passes a rank. */
  readonly real: number;
  readonly count: number;
  readonly ranks: number;
  readonly rank: Int32Array;
  /** Room that each takes across: above its middle and below. */
  readonly above: Float64Array;
  readonly below: Float64Array;
  /** Whether it is a line that passes, or a container's port: these need less room around them. */
  readonly thin: Uint8Array;
  /** Links lead from a rank to the next; those of one edge stand together, in order. */
  readonly tail: Int32Array;
  readonly head: Int32Array;
  readonly tailPort: Float64Array;
  readonly headPort: Float64Array;
  readonly edgeOf: Int32Array;
  /** Which links and which nodes are part of the bus. */
  readonly busLink: Uint8Array;
  readonly onBus: Uint8Array;
  /** Links of edge e: `chain[e]` to `chain[e + 1]`. */
  readonly chain: Int32Array;
  readonly out: Csr;
  readonly into: Csr;
  /** What each rank holds, from top to bottom. */
  readonly rows: Int32Array[];
}

/**
 * Cuts the edges into links. Edges that were turned around run in a lane of their own under both of
 * their ends, so the lane is added to the room of these nodes; edges in `skip` are left out.
 */
export function properOf(
  graph: LayoutGraph,
  wires: Wires,
  back: Uint8Array,
  skip: Uint8Array,
  rank: Int32Array,
  ranks: number,
  edgeGap: number,
): Proper {
  const real = graph.nodes.length;
  const edges = graph.edges.length;
  const chain = new Int32Array(edges + 1);
  for (let e = 0; e < edges; e++) {
    const length = skip[e] || wires.from[e]! < 0 ? 0 : rank[wires.to[e]!]! - rank[wires.from[e]!]!;
    chain[e + 1] = chain[e]! + length;
  }
  const links = chain[edges]!;
  let cuts = 0;
  for (let e = 0; e < edges; e++) cuts += Math.max(0, chain[e + 1]! - chain[e]! - 1);
  const count = real + cuts;
  const above = new Float64Array(count);
  const below = new Float64Array(count);
  const rankOf = new Int32Array(count);
  const thin = new Uint8Array(count).fill(1, real);
  for (let v = 0; v < real; v++) {
    if (graph.nodes[v]!.pin) thin[v] = 1;
    above[v] = graph.nodes[v]!.height / 2;
    below[v] = above[v]! + (graph.nodes[v]!.below ?? 0);
    rankOf[v] = rank[v]!;
  }
  const tail = new Int32Array(links);
  const head = new Int32Array(links);
  const tailPort = new Float64Array(links);
  const headPort = new Float64Array(links);
  const edgeOf = new Int32Array(links);
  const busLink = new Uint8Array(links);
  const onBus = new Uint8Array(count);
  let next = real;
  for (let e = 0; e < edges; e++) {
    const first = chain[e]!;
    const end = chain[e + 1]!;
    if (first === end) continue;
    const u = wires.from[e]!;
    const v = wires.to[e]!;
    let at = u;
    for (let link = first; link < end; link++) {
      edgeOf[link] = e;
      tail[link] = at;
      if (link < end - 1) {
        rankOf[next] = rank[u]! + link - first + 1;
        at = next++;
      } else at = v;
      head[link] = at;
      if (graph.edges[e]!.bus && !back[e]) busLink[link] = onBus[tail[link]!] = onBus[at] = 1;
    }
    if (back[e]) {
      tailPort[first] = below[u]! + edgeGap;
      headPort[end - 1] = below[v]! + edgeGap;
      below[u]! += edgeGap;
      below[v]! += edgeGap;
    } else {
      tailPort[first] = graph.edges[e]!.fromPort ?? 0;
      headPort[end - 1] = graph.edges[e]!.toPort ?? 0;
    }
  }
  const byRank = groupBy(ranks, rankOf);
  const rows = Array.from({ length: ranks }, (_, r) => byRank.item.slice(byRank.start[r], byRank.start[r + 1]));
  return {
    real,
    count,
    ranks,
    rank: rankOf,
    above,
    below,
    thin,
    tail,
    head,
    tailPort,
    headPort,
    edgeOf,
    busLink,
    onBus,
    chain,
    out: groupBy(count, tail),
    into: groupBy(count, head),
    rows,
  };
}
