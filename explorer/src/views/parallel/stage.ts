/** What the graph shows at a moment of a schedule: who waits for how many, who works, what is on its way. */
import { SIGNS } from "../../draw/folded_looks";
import type { EdgeLook, Lane, NodeLook } from "../../draw/looks";
import { workerToken } from "../../draw/palette";
import type { Picture } from "../../draw/picture";
import type { Item, VisibleEdge } from "../../fold/visible";
import type { Model } from "../../trace/model";
import type { Selection } from "../../state";
import { hasGradient, momentOf, wayOf, type Pass, type Passes } from "./passes";

export interface Stage {
  model: Model;
  picture: Picture;
  passes: Passes;
  /** The nodes that a closed box stands for, by item; none for all others. */
  inside: readonly Int32Array[];
}

export function stageOf(model: Model, picture: Picture, passes: Passes): Stage {
  const { items, itemOf } = picture.graph;
  const lists: number[][] = items.map(() => []);
  for (let n = 0; n < model.nodes; n++) {
    const i = itemOf[n] as number;
    if (i >= 0 && items[i]?.node === -1) (lists[i] as number[]).push(n);
  }
  return { model, picture, passes, inside: lists.map((list) => Int32Array.from(list)) };
}

export function nodesAt(stage: Stage, now: number, selection: Selection, hover: Selection): NodeLook[] {
  const { picture } = stage;
  return picture.graph.items.map((item, i) => {
    const base = picture.nodes[i] as NodeLook;
    const is = (what: Selection) => what !== null && (item.node >= 0 ? what.kind === "node" && what.row === item.node : what.kind === "scope" && item.members.includes(what.row));
    const chosen = { ...base, selected: is(selection), hovered: is(hover) };
    if (item.open) return chosen;
    // Where boxes stand close together colours alone say who works: words below would lie on the next one.
    if (item.node >= 0 && picture.metrics === SIGNS) return { ...nodeAt(stage, item.node, chosen, now), below: undefined };
    return item.node >= 0 ? nodeAt(stage, item.node, chosen, now) : boxAt(stage, stage.inside[i] as Int32Array, chosen, now);
  });
}

function nodeAt({ model, passes }: Stage, node: number, base: NodeLook, now: number): NodeLook {
  const { back, stage, missing, worker } = momentOf(model, passes, node, now);
  const forward = passes.values.worker[node] as number;
  const by = (w: number) => (w >= 0 ? workerToken(w) : undefined);
  switch (stage) {
    case "waits":
      return { ...base, waiting: !back, rim: back ? by(forward) : undefined, ...(missing > 0 ? { count: String(missing), countToken: back ? "grad" : "ink" } : {}) };
    case "ready":
      return { ...base, rim: back ? by(forward) : undefined, below: { text: "ready", token: "ink" }, count: "0", countToken: back ? "grad" : "ink" };
    case "runs":
      return { ...base, lit: workerToken(worker), glow: workerToken(worker), below: { text: `w${worker}${back ? ", back" : ""}`, token: workerToken(worker) } };
    default:
      return { ...base, rim: by(worker) ?? by(forward) };
  }
}

/** A closed box is lit while somebody works on anything in it, and says how much of the pass is done. */
function boxAt({ model, passes }: Stage, nodes: Int32Array, base: NodeLook, now: number): NodeLook {
  const back = now >= passes.turn;
  const pass: Pass = back ? passes.gradients : passes.values;
  let [all, done] = [0, 0];
  let workers = 0;
  for (const n of nodes) {
    if ((pass.worker[n] as number) < 0 || (back && !hasGradient(model, n))) continue;
    all++;
    if ((pass.end[n] as number) <= now) done++;
    else if ((pass.start[n] as number) <= now) workers |= 1 << (pass.worker[n] as number);
  }
  const busy = Array.from({ length: 31 }, (_, w) => w).filter((w) => workers & (1 << w));
  const share = all === 0 ? undefined : done / all;
  if (busy.length === 0) return { ...base, share, waiting: !back && done === 0 && all > 0 };
  const token = workerToken(busy[0] as number);
  return { ...base, share, lit: token, glow: token, below: { text: `${busy.map((w) => `w${w}`).join(" ")}${back ? ", back" : ""}`, token } };
}

/** Of an edge that stands for more than this, only so many are looked at. */
const LOOKED_AT = 64;

export function edgesAt({ model, picture, passes }: Stage, now: number): EdgeLook[] {
  return picture.graph.edges.map((edge, i) => {
    const base = picture.edges[i] as EdgeLook;
    const rows = edge.rows.subarray(0, LOOKED_AT);
    const out = passed(rows, (row) => passes.values.end[model.src[row] as number] as number, now);
    const home = passed(rows, (row) => passes.gradients.end[model.dst[row] as number] as number, now);
    return { ...base, value: laneAt(base.value, out), gradient: home === 0 ? null : laneAt(base.gradient, home) };
  });
}

/** The share of rows that have happened. */
function passed(rows: Int32Array, end: (row: number) => number, now: number): number {
  let done = 0;
  for (const row of rows) if (end(row) <= now) done++;
  return rows.length === 0 ? 0 : done / rows.length;
}

function laneAt(lane: Lane | null, share: number): Lane | null {
  return lane === null ? null : { ...lane, dim: share < 1 };
}

/** What is on its way along an edge of the picture: how far (0 to 1, from the one who made it), whose, and which way. */
export interface Pulse {
  edge: number;
  share: number;
  back: boolean;
  worker: number;
}

export function pulsesAt({ model, picture, passes }: Stage, now: number): Pulse[] {
  const found: Pulse[] = [];
  picture.graph.edges.forEach((edge: VisibleEdge, i) => {
    const out = edge.values.subarray(0, LOOKED_AT).map((n) => n);
    let [there, home] = [-1, -1];
    let [from, to] = [-1, -1];
    for (const n of out) {
      const way = wayOf(passes, n, false, now);
      if (way > there) [there, from] = [way, passes.values.worker[n] as number];
    }
    for (const row of edge.rows.subarray(0, LOOKED_AT)) {
      if (!hasGradient(model, model.src[row] as number)) continue;
      const way = wayOf(passes, model.dst[row] as number, true, now);
      if (way > home) [home, to] = [way, passes.gradients.worker[model.dst[row] as number] as number];
    }
    if (there >= 0) found.push({ edge: i, share: there, back: false, worker: from });
    if (home >= 0) found.push({ edge: i, share: home, back: true, worker: to });
  });
  return found;
}

export function selectionOfItem(item: Item): Selection {
  return item.node >= 0 ? { kind: "node", row: item.node } : { kind: "scope", row: item.scope };
}
