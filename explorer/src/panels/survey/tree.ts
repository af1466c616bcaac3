/** The module tree as a flat list of rows: repeated blocks fold into runs, except where something is to be seen. */
import type { Model } from "../../trace/model";
import { text } from "../../trace/model";
import { lineage, totalsOf, type Totals } from "../../views/survey/totals";

export type TreeRow =
  | { kind: "scope"; key: string; scope: number; depth: number; label: string; times: number; open: boolean; leaf: boolean }
  | { kind: "run"; key: string; scopes: readonly number[]; depth: number; label: string; times: number; open: boolean; leaf: false }
  | { kind: "node"; key: string; node: number; depth: number; label: string; open: false; leaf: true };

export interface TreeState {
  open: ReadonlySet<number>;
  /** First scopes of the runs that are listed one by one. */
  unrolled: ReadonlySet<number>;
  /** Nodes that have a row of their own under their module: the selected one, those of findings. */
  marked: readonly { node: number; label: string }[];
  /** Scopes that never vanish in a run: around the selection and around findings. */
  apart: ReadonlySet<number>;
}

export function treeRows(model: Model, state: TreeState): TreeRow[] {
  const totals = totalsOf(model);
  const marks = new Map<number, { node: number; label: string }[]>();
  for (const mark of state.marked) {
    const scope = model.trace.nodes.scope[mark.node] as number;
    marks.set(scope, [...(marks.get(scope) ?? []), mark]);
  }
  const rows: TreeRow[] = [];
  const put = (scope: number, depth: number): void => {
    const children = model.childScopes[scope] as number[];
    const own = marks.get(scope) ?? [];
    const leaf = children.length === 0 && own.length === 0;
    const open = !leaf && (scope === 0 || state.open.has(scope));
    const times = repeats(model, scope);
    rows.push({ kind: "scope", key: `s${scope}`, scope, depth, label: labelOf(model, scope), times, open, leaf });
    if (!open) return;
    for (const group of runsOf(model, totals, children, state)) {
      const first = group[0] as number;
      if (group.length === 1) {
        put(first, depth + 1);
        continue;
      }
      const unrolled = state.unrolled.has(first);
      rows.push({
        kind: "run", key: `r${first}`, scopes: group, depth: depth + 1, label: runLabel(group.map((s) => labelOf(model, s)), group.length === children.length),
        times: group.length, open: unrolled, leaf: false,
      });
      if (unrolled) for (const s of group) put(s, depth + 2);
    }
    for (const mark of own) {
      rows.push({ kind: "node", key: `n${mark.node}`, node: mark.node, depth: depth + 1, label: mark.label, open: false, leaf: true });
    }
  };
  put(0, 0);
  return rows;
}

function labelOf(model: Model, scope: number): string {
  return text(model, model.trace.scopes.name[scope]);
}

/** How often a module holds one and the same part and nothing else; 1 where it does not. */
function repeats(model: Model, scope: number): number {
  const children = model.childScopes[scope] as number[];
  const hash = model.trace.scopes.hash;
  const first = children[0];
  if (first === undefined || children.length < 2) return 1;
  return children.every((s) => hash[s] === hash[first]) ? children.length : 1;
}

/** Neighbours of the same structure and in the same state of health go together. */
function runsOf(model: Model, totals: Totals, children: readonly number[], state: TreeState): number[][] {
  const { hash } = model.trace.scopes;
  const health = (s: number) => ((totals.badGradients[s] as number) > 0 ? 2 : 0) + ((totals.badValues[s] as number) > 0 ? 1 : 0);
  const alone = (s: number) => state.apart.has(s) || state.open.has(s);
  const out: number[][] = [];
  for (const s of children) {
    const run = out[out.length - 1];
    const before = run?.[0];
    const joins =
      run !== undefined && before !== undefined && hash[before] === hash[s] && health(before) === health(s) && !alone(s) && !alone(before);
    if (joins) run.push(s);
    else out.push([s]);
  }
  return out;
}

/** "0 – 6" for 0, 1, ... 6; "head" for all of head 0 ... head 11; "up, down" for names without numbers. */
export function runLabel(names: readonly string[], all: boolean): string {
  const split = names.map((name) => /^(.*?)(\d+)$/.exec(name));
  const first = split[0];
  const last = split[split.length - 1];
  if (first && last && split.every((s) => s !== null && s !== undefined && s[1] === first[1])) {
    const stem = (first[1] as string).replace(/[\s._[]+$/, "");
    if (all && stem !== "") return stem;
    return `${stem === "" ? "" : `${stem} `}${first[2]} – ${last[2]}`;
  }
  const distinct = [...new Set(names)];
  return distinct.length <= 3 ? distinct.join(", ") : `${distinct[0]} … ${distinct[distinct.length - 1]}`;
}

/** Scopes around nodes, the whole run left out. */
export function around(model: Model, nodes: readonly number[]): Set<number> {
  const out = new Set<number>();
  for (const node of nodes) for (const s of lineage(model, model.trace.nodes.scope[node] as number)) if (s > 0) out.add(s);
  return out;
}

/** The row that Arrow keys, Home and End lead to; the row itself where there is none. */
export function neighbour(rows: readonly TreeRow[], at: number, key: string): number {
  const row = rows[at];
  if (row === undefined) return 0;
  switch (key) {
    case "ArrowDown":
      return Math.min(rows.length - 1, at + 1);
    case "ArrowUp":
      return Math.max(0, at - 1);
    case "Home":
      return 0;
    case "End":
      return rows.length - 1;
    case "ArrowRight":
      return row.open && (rows[at + 1]?.depth ?? 0) > row.depth ? at + 1 : at;
    case "ArrowLeft": {
      let up = at - 1;
      while (up >= 0 && (rows[up] as TreeRow).depth >= row.depth) up--;
      return Math.max(0, up);
    }
    default:
      return at;
  }
}
