/** Who holds memory at a moment: buffers by module, and the words for each. */
import { scopePath, type Model } from "../../trace/model";
import { BUFFER_CLASSES } from "../../trace/types";
import { nodeTitle } from "../../panels/survey/node_panel";
import type { Strip } from "../survey/strip";
import { columnOfScope } from "../survey/strip";

export const CLASS_WORDS: Readonly<Record<(typeof BUFFER_CLASSES)[number], string>> = {
  value: "value",
  saved: "kept",
  gradient: "gradient",
  work: "work",
  param: "parameter",
};

export interface Group {
  label: string;
  scope: number;
  bytes: number;
  buffers: number[];
}

/** Buffers by the layer of the strip that they belong to, the largest group first. */
export function byLayer(model: Model, strip: Strip, held: readonly number[]): Group[] {
  const layer = new Map<number, number>();
  const groups = new Map<number, Group>();
  const { buffers, nodes } = model.trace;
  for (const b of held) {
    const node = buffers.node[b] as number;
    const scope = node < 0 ? 0 : (nodes.scope[node] as number);
    let column = layer.get(scope);
    if (column === undefined) layer.set(scope, (column = scope === 0 ? -1 : columnOfScope(model, strip, scope)));
    let group = groups.get(column);
    if (group === undefined) {
      const found = strip.columns[column];
      group = { label: found?.label ?? "outside layers", scope: found?.scopes[0] ?? 0, bytes: 0, buffers: [] };
      groups.set(column, group);
    }
    group.bytes += buffers.bytes[b] as number;
    group.buffers.push(b);
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}

export function classOf(model: Model, buffer: number): (typeof BUFFER_CLASSES)[number] {
  return BUFFER_CLASSES[model.trace.buffers.class[buffer] as number] ?? "work";
}

/** The node that a buffer is of, in words. */
export function holderName(model: Model, buffer: number): string {
  const node = model.trace.buffers.node[buffer] as number;
  return node < 0 ? "none" : nodeTitle(model, node);
}

export function moduleOf(model: Model, buffer: number): string {
  const node = model.trace.buffers.node[buffer] as number;
  return node < 0 ? "" : scopePath(model, model.trace.nodes.scope[node] as number).join(".");
}
