/** The run as a row of layers: what stands in each column, how large values and gradients are in it, what passes between. */
import { copiedFor, seenIn } from "../../fold/copies";
import { edgesAt, kindOf, nameOf, opOf, recordedSize, text, type Model } from "../../trace/model";
import { rmsOfCode } from "../../trace/decode";
import { NODE_KINDS } from "../../trace/types";
import { elements, NAN, hasNaNGradient, hasNaNValue, totalsOf, type Totals } from "./totals";

export interface Column {
  kind: "input" | "scope" | "nodes" | "loss";
  label: string;
  /** What the columns are numbers of: "cell" over 0, 1, 2. */
  list?: string;
  /** The scopes and, for what stands between scopes, the nodes that it holds. */
  scopes: readonly number[];
  nodes: readonly number[];
  ops: number;
  valueSize: number;
  gradientSize: number;
  /** Made of sizes for drawing. */
  rough: boolean;
  badValues: boolean;
  badGradients: boolean;
}

/** What passes from a column to the next, over their common border. */
export interface Border {
  value: boolean;
  gradient: boolean;
  badValue: boolean;
  badGradient: boolean;
}

export interface Strip {
  columns: readonly Column[];
  /** One fewer than columns. */
  borders: readonly Border[];
  /** The column of each node, -1 for parameters and constants, which stand nowhere in the row. */
  columnOf: Int32Array;
}

/** A part before it becomes a column: a scope, or a node that stands in the expanded scope itself. */
type Part = { scope: number; first: number } | { node: number; first: number };

const [INPUT, OP, ROOT] = (["input", "op", "root"] as const).map((kind) => NODE_KINDS.indexOf(kind)) as [number, number, number];

/** A part with this share of all nodes says too little in one column. */
const TOO_MUCH = 0.5;
/** And so does a list of layers with this share. */
const A_LOT = 0.2;
/** So many columns can be told apart. */
export const MOST_COLUMNS = 48;

export function stripOf(model: Model, root = 0, most = MOST_COLUMNS): Strip {
  const totals = totalsOf(model);
  const first = firstNodes(model);
  const groups = withInputs(model, grouped(expanded(model, totals, first, root)), root);
  const columns = mergedToFit(numbered(model, groups.flatMap((group) => columnsOf(model, totals, group))), most);
  const columnOf = new Int32Array(model.nodes).fill(-1);
  assign(model, columns, columnOf);
  return { columns, borders: bordersOf(model, columns.length, columnOf), columnOf };
}

/** The first node in each scope or below it. */
function firstNodes(model: Model): Int32Array {
  const { parent } = model.trace.scopes;
  const first = new Int32Array(parent.length).fill(model.nodes);
  for (let n = model.nodes - 1; n >= 0; n--) if ((model.trace.nodes.op[n] as number) >= 0) first[model.trace.nodes.scope[n] as number] = n;
  for (let s = parent.length - 1; s > 0; s--) {
    const p = parent[s] as number;
    first[p] = Math.min(first[p] as number, first[s] as number);
  }
  return first;
}

function partsIn(model: Model, totals: Totals, first: Int32Array, scope: number): Part[] {
  const parts: Part[] = [];
  for (const s of model.childScopes[scope] as number[]) {
    if ((totals.ops[s] as number) > 0) parts.push({ scope: s, first: first[s] as number });
  }
  const { kind } = model.trace.nodes;
  const copied = copiedFor(model);
  for (const n of model.childNodes[scope] as number[]) {
    if ((copied[n] as number) >= 0) continue;
    if (kind[n] === OP || kind[n] === ROOT) parts.push({ node: n, first: n });
  }
  return parts.sort((a, b) => a.first - b.first);
}

/** The scope itself, or the innermost of those that each hold one scope and nothing else. */
export function throughChain(model: Model, scope: number): number {
  let s = scope;
  for (;;) {
    const [only, ...more] = model.childScopes[s] as number[];
    if (only === undefined || more.length > 0 || (model.childNodes[s] as number[]).length > 0) return s;
    s = only;
  }
}

/** The parts in a scope, or in the only part that it has. */
function partsBelow(model: Model, totals: Totals, first: Int32Array, scope: number): Part[] {
  let parts = partsIn(model, totals, first, scope);
  for (let only = parts[0]; parts.length === 1 && only !== undefined && "scope" in only; only = parts[0]) {
    parts = partsIn(model, totals, first, only.scope);
  }
  return parts;
}

/** The parts of a scope; those that hold lists of like parts, or most of everything, are replaced by their own parts. */
function expanded(model: Model, totals: Totals, first: Int32Array, root: number): Part[] {
  const all = totals.ops[root] as number;
  let parts = partsBelow(model, totals, first, root);
  for (;;) {
    let at = -1;
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i] as Part;
      if (!("scope" in part)) continue;
      const share = (totals.ops[part.scope] as number) / all;
      const inner = partsBelow(model, totals, first, part.scope);
      if (inner.length < 2) continue;
      if (share > TOO_MUCH || (share > A_LOT && isList(model, part.scope))) {
        at = i;
        break;
      }
    }
    if (at < 0) return parts;
    const part = parts[at] as { scope: number };
    parts = [...parts.slice(0, at), ...partsBelow(model, totals, first, part.scope), ...parts.slice(at + 1)];
  }
}

/** Whether a scope holds like parts and nothing else: a list of layers. */
function isList(model: Model, scope: number): boolean {
  const children = model.childScopes[scope] as number[];
  const { hash } = model.trace.scopes;
  const own = (model.childNodes[scope] as number[]).some((n) => (model.trace.nodes.op[n] as number) >= 0);
  return !own && children.length > 1 && children.every((s) => hash[s] === hash[children[0] as number]);
}

/** Nodes that stand side by side go together: more than three of them say more as one column. */
function grouped(parts: readonly Part[]): Part[][] {
  const groups: Part[][] = [];
  for (const part of parts) {
    const group = groups[groups.length - 1];
    const before = group?.[0];
    if (group !== undefined && before !== undefined && "node" in part && "node" in before) group.push(part);
    else groups.push([part]);
  }
  return groups;
}

/** Groups with the inputs before them that they are the first to use: those of the first group, and those that belong to no part. */
function withInputs(model: Model, groups: readonly Part[][], root: number): Part[][] {
  const { kind, scope } = model.trace.nodes;
  const { parent } = model.trace.scopes;
  const groupOf = new Int32Array(model.nodes).fill(-1);
  const ofScope = new Int32Array(parent.length).fill(-1);
  groups.forEach((group, i) => {
    for (const part of group) {
      if ("scope" in part) ofScope[part.scope] = i;
      else groupOf[part.node] = i;
    }
  });
  handDown(parent, ofScope);
  const user = new Int32Array(model.nodes).fill(groups.length);
  for (let e = 0; e < model.edges; e++) {
    const [src, dst] = [model.src[e] as number, model.dst[e] as number];
    if (kind[src] !== INPUT) continue;
    const at = (groupOf[dst] as number) >= 0 ? (groupOf[dst] as number) : (ofScope[scope[dst] as number] as number);
    if (at >= 0) user[src] = Math.min(user[src] as number, at);
  }
  const inputs: Part[][] = groups.map(() => []);
  for (let n = 0; n < model.nodes; n++) {
    if (kind[n] !== INPUT || !contains(parent, root, scope[n] as number)) continue;
    const at = user[n] as number;
    const inPart = (ofScope[scope[n] as number] as number) >= 0;
    if (at === 0 || !inPart) inputs[at]?.push({ node: n, first: n });
  }
  return groups.flatMap((group, i) => [inputs[i] as Part[], group]).filter((group) => group.length > 0);
}

/** Gives a scope what the one around it has, where it has none of its own. */
function handDown(parent: readonly number[], ofScope: Int32Array): void {
  for (let s = 1; s < parent.length; s++) if ((ofScope[s] as number) < 0) ofScope[s] = ofScope[parent[s] as number] as number;
}

const ALONE = 3;

function columnsOf(model: Model, totals: Totals, group: readonly Part[]): Column[] {
  const part = group[0] as Part;
  if ("scope" in part) return [scopeColumn(model, totals, part.scope)];
  const nodes = group.flatMap((p) => ("node" in p ? [p.node] : []));
  const loss = model.trace.meta.roots[0];
  const rest = nodes.filter((n) => n !== loss);
  const alone = rest.length <= ALONE;
  const columns = alone ? rest.map((n) => nodesColumn(model, [n])) : [nodesColumn(model, rest)];
  if (rest.length < nodes.length) columns.push({ ...nodesColumn(model, [loss as number]), kind: "loss" });
  return columns;
}

function scopeColumn(model: Model, t: Totals, scope: number): Column {
  return {
    kind: "scope",
    label: text(model, model.trace.scopes.name[scope]),
    scopes: [scope],
    nodes: [],
    ops: t.ops[scope] as number,
    valueSize: t.valueSize[scope] as number,
    gradientSize: t.gradientSize[scope] as number,
    rough: (t.roughValues[scope] as number) + (t.roughGradients[scope] as number) > 0,
    badValues: (t.badValues[scope] as number) > 0,
    badGradients: (t.badGradients[scope] as number) > 0,
  };
}

function nodesColumn(model: Model, nodes: readonly number[]): Column {
  const [n] = nodes as [number];
  const one = nodes.length === 1;
  const input = kindOf(model, n) === "input";
  return {
    kind: input ? "input" : "nodes",
    label: one ? (input || isSource(model, n) ? nameOf(model, n) : opOf(model, n)) : `${nodes.length} ${input ? "inputs" : "ops"}`,
    scopes: [],
    nodes,
    ops: nodes.reduce((sum, m) => sum + ((model.trace.nodes.op[m] as number) >= 0 ? 1 : 0), 0),
    valueSize: sizeOf(model, nodes, false),
    gradientSize: sizeOf(model, nodes, true),
    rough: nodes.some((m) => [false, true].some((gradient) => codesOf(model, gradient)[m] !== 0 && recordedSize(model, m, gradient) === null)),
    badValues: nodes.some((m) => hasNaNValue(model, m)),
    badGradients: nodes.some((m) => hasNaNGradient(model, m)),
  };
}

/** Whether an operation makes a value out of nothing, as random draws do, that the program has a name for. */
function isSource(model: Model, node: number): boolean {
  return edgesAt(model.operands, node).length === 0 && !/^(v\d+)?$/.test(nameOf(model, node));
}

function codesOf(model: Model, gradient: boolean): Uint8Array {
  return gradient ? model.gradientCode : model.valueCode;
}

function sizeOf(model: Model, nodes: readonly number[], gradient: boolean): number {
  let squares = 0;
  let count = 0;
  for (const n of nodes) {
    const rms = recordedSize(model, n, gradient) ?? rmsOfCode(codesOf(model, gradient)[n] as number);
    if (rms === null) continue;
    const many = elements(model.trace.shapes[model.trace.nodes.shape[n] as number] ?? []);
    if (Number.isFinite(rms)) squares += rms * rms * many;
    count += many;
  }
  return count === 0 ? Number.NaN : Math.sqrt(squares / count);
}

/** Several layers that are told apart by a number alone are called by it, under the name of what they are numbers of. */
function numbered(model: Model, columns: readonly Column[]): Column[] {
  const split = columns.map((column) => {
    const parts = column.kind === "scope" ? /^(.*?)[\s._[=]*(\d+)\]?$/.exec(column.label) : null;
    return parts && { list: (parts[1] as string) || above(model, column.scopes[0] as number), number: parts[2] as string };
  });
  const count = new Map<string, number>();
  for (const parts of split) if (parts) count.set(parts.list, (count.get(parts.list) ?? 0) + 1);
  return columns.map((column, i) => {
    const parts = split[i];
    if (!parts || (count.get(parts.list) as number) <= 2) return column;
    return { ...column, label: parts.number, ...(parts.list === "" ? {} : { list: parts.list }) };
  });
}

/** The name of the scope around a scope, "" for the whole run. */
function above(model: Model, scope: number): string {
  const parent = model.trace.scopes.parent[scope] as number;
  return parent > 0 ? text(model, model.trace.scopes.name[parent]) : "";
}

/** Where there are more columns than can be told apart, neighbours share one; ends stay what they are. */
function mergedToFit(columns: readonly Column[], most: number): Column[] {
  if (columns.length <= most) return [...columns];
  const size = Math.ceil(columns.length / most);
  const out: Column[] = [];
  let run: Column[] = [];
  const flush = () => {
    if (run.length > 0) out.push(run.length === 1 ? (run[0] as Column) : together(run));
    run = [];
  };
  for (const column of columns) {
    if (column.kind === "input" || column.kind === "loss") {
      flush();
      out.push(column);
      continue;
    }
    run.push(column);
    if (run.length === size) flush();
  }
  flush();
  return out;
}

function together(run: readonly Column[]): Column {
  const rms = (pick: (c: Column) => number) => {
    const sizes = run.map(pick).filter((s) => !Number.isNaN(s));
    return sizes.length === 0 ? Number.NaN : Math.sqrt(sizes.reduce((sum, s) => sum + s * s, 0) / sizes.length);
  };
  return {
    kind: run.every((c) => c.kind === "scope") ? "scope" : "nodes",
    label: `${(run[0] as Column).label}–${(run[run.length - 1] as Column).label}`,
    ...(run[0]?.list !== undefined && run.every((c) => c.list === run[0]?.list) ? { list: run[0].list } : {}),
    scopes: run.flatMap((c) => c.scopes),
    nodes: run.flatMap((c) => c.nodes),
    ops: run.reduce((sum, c) => sum + c.ops, 0),
    valueSize: rms((c) => c.valueSize),
    gradientSize: rms((c) => c.gradientSize),
    rough: run.some((c) => c.rough),
    badValues: run.some((c) => c.badValues),
    badGradients: run.some((c) => c.badGradients),
  };
}

function assign(model: Model, columns: readonly Column[], columnOf: Int32Array): void {
  const { parent } = model.trace.scopes;
  const ofScope = new Int32Array(parent.length).fill(-1);
  columns.forEach((column, i) => {
    for (const s of column.scopes) ofScope[s] = i;
  });
  handDown(parent, ofScope);
  for (let n = 0; n < model.nodes; n++) {
    if ((model.trace.nodes.op[n] as number) >= 0) columnOf[n] = ofScope[model.trace.nodes.scope[n] as number] as number;
  }
  columns.forEach((column, i) => {
    for (const n of column.nodes) columnOf[n] = i;
  });
  copiedFor(model).forEach((user, n) => {
    if (user >= 0) columnOf[n] = columnOf[seenIn(model, n)] as number;
  });
}

/** For each border the number of edges that cross it with something of a kind, from where each begins and ends. */
class Crossings {
  private readonly steps: Int32Array;
  constructor(columns: number) {
    this.steps = new Int32Array(columns + 1);
  }
  add(from: number, to: number): void {
    this.steps[from]!++;
    this.steps[to]!--;
  }
  any(): boolean[] {
    let crossing = 0;
    return Array.from(this.steps, (step) => (crossing += step) > 0);
  }
}

function bordersOf(model: Model, columns: number, columnOf: Int32Array): Border[] {
  const [value, gradient, badValue, badGradient] = [0, 1, 2, 3].map(() => new Crossings(columns)) as [Crossings, Crossings, Crossings, Crossings];
  for (let e = 0; e < model.edges; e++) {
    const src = model.src[e] as number;
    const a = columnOf[src] as number;
    const b = columnOf[model.dst[e] as number] as number;
    if (a < 0 || b <= a) continue;
    value.add(a, b);
    if (hasNaNValue(model, src)) badValue.add(a, b);
    const code = model.edgeGradientCode?.[e] ?? (model.gradientCode[src] as number);
    if (code > 0) gradient.add(a, b);
    if (code === NAN) badGradient.add(a, b);
  }
  const [v, g, bv, bg] = [value.any(), gradient.any(), badValue.any(), badGradient.any()];
  return Array.from({ length: Math.max(0, columns - 1) }, (_, i) => ({
    value: v[i] as boolean,
    gradient: g[i] as boolean,
    badValue: bv[i] as boolean,
    badGradient: bg[i] as boolean,
  }));
}

/** The column in which a scope is, or the one that has most of it where it is in several; -1 where it is in none. */
export function columnOfScope(model: Model, strip: Strip, scope: number): number {
  const { parent } = model.trace.scopes;
  for (let s = scope; s >= 0; s = parent[s] as number) {
    const at = strip.columns.findIndex((column) => column.scopes.includes(s));
    if (at >= 0) return at;
  }
  return strip.columns.findIndex((column) => column.scopes.some((s) => contains(parent, scope, s)));
}

function contains(parent: readonly number[], outer: number, inner: number): boolean {
  for (let s = inner; s >= 0; s = parent[s] as number) if (s === outer) return true;
  return false;
}
