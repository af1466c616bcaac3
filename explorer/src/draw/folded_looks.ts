/** How things look that only folded graphs have: runs of alike parts, ports; and the sizes of everything in a survey. */
import { statesOf } from "../fold/recurrence";
import type { Item } from "../fold/visible";
import { FLAG } from "../trace/types";
import { kindOf, nameOf, symbolOf, text, type Model } from "../trace/model";
import { DENSE, baseLook, shortName, type Metrics, type NodeLook } from "./looks";

/** The same without numbers: signs and badges only. */
export const SIGNS: Metrics = {
  ...withoutInside(DENSE),
  op: 40,
  circle: 40,
  hexagon: [40, 44],
  root: 44,
  symbolSize: 21,
  labelSize: 13,
  captionSize: 14,
  rankGap: 24,
  nodeGap: 16,
};

function withoutInside({ inside: _, ...rest }: Metrics): Metrics {
  return rest;
}

export const SURVEY: Metrics = {
  op: 34,
  circle: 32,
  hexagon: [30, 34],
  root: 40,
  scopeHeight: 34,
  symbolSize: 18,
  labelSize: 12.5,
  captionSize: 11,
  chipSize: 11,
  lane: 3,
  rankGap: 46,
  nodeGap: 26,
  edgeGap: 16,
  portGap: 10,
  padding: 16,
  header: 24,
};

/** The look that an item of a folded graph has whatever the cursor and the reader do. */
export function foldedLook(model: Model, item: Item): NodeLook {
  if (item.kind === "node") return baseLook(model, item);
  if (item.kind === "port") return portLook(model, item);
  const many = item.members.length;
  if (item.kind === "run") return { shape: "run", label: runTitle(model, item), font: "ui", count: `× ${many}`, params: item.params > 0, loop: statesOf(model, item.members[0]!).length > 0 };
  return { ...baseLook(model, item), ...(many > 1 ? { aside: `${many} alike, drawn once` } : {}) };
}

/** Where values come in, or go out: inputs and parameters as everywhere, else what stands behind the border. */
function portLook(model: Model, item: Item): NodeLook {
  const kind = kindOf(model, item.node);
  const bad = ((model.trace.nodes.flags[item.node] ?? 0) & (FLAG.nanForward | FLAG.nanBackward)) !== 0;
  if (item.entering && (kind === "input" || kind === "param")) {
    const many = item.nodes > 1 ? { count: `× ${item.nodes}` } : {};
    return { shape: kind, label: shortName(nameOf(model, item.node)), font: "math", bad, ...many };
  }
  const names = item.entering ? [sourceName(model, item)] : [...new Set(item.beyond?.map((n) => behind(model, n, item)))];
  const shown = names.length > 2 ? `${names[0]}, …` : names.join(", ");
  return { shape: "port", label: item.entering ? `${shown} →` : `→ ${shown}`, font: "ui", bad };
}

/** The program's own name of what comes in, else the part that it comes from. */
function sourceName(model: Model, item: Item): string {
  const name = nameOf(model, item.node);
  return /^([vcpx]\d+)?$/.test(name) || item.nodes > 1 ? behind(model, item.node, item) : shortName(name);
}

/** The part of the run behind a port, by the name of its scope; a node that stands by itself by what it is. */
function behind(model: Model, node: number, item: Item): string {
  if (item.scope >= 0) return scopeName(model, item.scope);
  const op = model.trace.nodes.op[node]!;
  return op < 0 ? shortName(nameOf(model, node)) : symbolOf(model, node);
}

/** A scope's name; one that is a number alone with that of what it is a part of. */
export function scopeName(model: Model, scope: number): string {
  const { name, parent } = model.trace.scopes;
  const own = text(model, name[scope]);
  const above = parent[scope]!;
  return /^\d+$/.test(own) && above > 0 ? `${text(model, name[above])}.${own}` : own;
}

function runTitle(model: Model, item: Item): string {
  const { name } = model.trace.scopes;
  const title = text(model, name[item.scope]);
  const last = text(model, name[item.members.at(-1)!]);
  if (title === last) return title;
  // "head 0" to "head 11" stand as "head 0–11".
  const stem = /^(.*?)(\d+)$/.exec(title);
  const end = /^(.*?)(\d+)$/.exec(last);
  return stem && end && stem[1] === end[1] ? `${title}–${end[2]}` : `${title} – ${last}`;
}
