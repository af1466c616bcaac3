/**
 * Folding: the visible graph that is left of a recorded one when closed scopes are one box each.
 *
 * Siblings that follow each other and have equal structure are one box with a count ("x 12"). Opening one
 * of them shows it: those that hand values to each other (layers) stay in a row, folded before and after
 * it; those that do not (heads) are drawn once, and every line of the others is drawn onto the one shown.
 *
 * Where one scope is shown alone, what comes into it and what goes out of it does so at ports.
 */
import { kindOf, type Model } from "../trace/model";
import { Agreement, siblingsOf } from "./agree";
import { copiedFor, seenIn } from "./copies";
import { edgesBetween, scopeFacts, type Item, type ScopeFacts, type VisibleEdge, type VisibleGraph } from "./visible";

export interface FoldOptions {
  /** Rows of the scopes that are open. The outermost is open always. */
  readonly open: ReadonlySet<number>;
  /** The scope whose contents are shown; 0 for all. */
  readonly within?: number;
  /** Scopes whose runs are shown box by box. */
  readonly unfold?: ReadonlySet<number>;
  /** Leaves out constants: they say little in a large graph. */
  readonly hideConstants?: boolean;
  /** Shows copies that nobody wrote as something that happens on the way to their operation: no boxes of their own. */
  readonly inlineCopies?: boolean;
}

const runs = new WeakMap<Model, Map<number, number[][]>>();

/**
 * The scopes in `scope`, in the order of the recording, neighbours of equal structure together whose sources and users
 * agree. Empty scopes are left out.
 */
export function runsIn(model: Model, scope: number): number[][] {
  let found = runs.get(model);
  if (found === undefined) runs.set(model, (found = new Map<number, number[][]>()));
  let own = found.get(scope);
  if (own === undefined) found.set(scope, (own = findRuns(model, scope)));
  return own;
}

function findRuns(model: Model, scope: number): number[][] {
  const facts = scopeFacts(model);
  const { hash } = model.trace.scopes;
  let agreement: Agreement | null = null;
  const children = model.childScopes[scope]!.filter((s) => facts.nodes[s]! > 0);
  children.sort((a, b) => facts.first[a]! - facts.first[b]! || a - b);
  const between = model.childNodes[scope]!;
  const out: number[][] = [];
  let last = -1;
  let k = 0;
  for (const s of children) {
    // Nodes of the scope itself that come between two children part them.
    const start = k;
    while (k < between.length && between[k]! < facts.first[s]!) k++;
    const alike = last >= 0 && hash[last] === hash[s] && facts.nodes[last] === facts.nodes[s] && k === start;
    const run = out.at(-1);
    if (alike && run !== undefined && (agreement ??= new Agreement(model, siblingsOf(model, children))).agrees(last, s, run.length === 1)) run.push(s);
    else out.push([s]);
    last = s;
  }
  agreement?.done();
  return out;
}

/** Nodes in a scope and all below, ascending. */
export function nodesWithin(model: Model, scope: number): Int32Array {
  const out: number[] = [];
  const stack = [scope];
  while (stack.length > 0) {
    const s = stack.pop()!;
    for (const n of model.childNodes[s]!) out.push(n);
    for (const child of model.childScopes[s]!) stack.push(child);
  }
  return Int32Array.from(out).sort();
}

export function fold(model: Model, options: FoldOptions): VisibleGraph {
  const folding = new Folding(model, options);
  return folding.run();
}

class Folding {
  private readonly facts: ScopeFacts;
  private readonly items: Item[] = [];
  private readonly itemOf: Int32Array;
  private readonly seenAs: Int32Array;
  /** Runs of which exactly one member is open: candidates for being drawn once. */
  private readonly single: { run: number[]; shown: number }[] = [];
  /** The ports at which values that are made inside go out, by node. */
  private readonly leaving = new Map<number, number>();
  private readonly model: Model;
  private readonly options: FoldOptions;

  constructor(model: Model, options: FoldOptions) {
    this.model = model;
    this.options = options;
    this.facts = scopeFacts(model);
    this.itemOf = new Int32Array(model.nodes).fill(-1);
    this.seenAs = Int32Array.from({ length: model.nodes }, (_, n) => n);
  }

  run(): VisibleGraph {
    const root = this.options.within ?? 0;
    this.findSingles(root);
    const once = this.drawnOnce();
    const queue: { scope: number; parent: number }[] = [{ scope: root, parent: -1 }];
    for (let i = 0; i < queue.length; i++) this.expand(queue[i]!.scope, queue[i]!.parent, once, queue);
    this.assign(once);
    let boxes = 0;
    for (const item of this.items) if (!item.open) boxes++;
    if (root !== 0) this.addPorts();
    return { items: this.items, edges: this.merge(), itemOf: this.itemOf, seenAs: this.seenAs, boxes };
  }

  private isOpen(scope: number): boolean {
    return this.options.open.has(scope);
  }

  private findSingles(root: number): void {
    const stack = [root];
    while (stack.length > 0) {
      const scope = stack.pop()!;
      for (const run of runsIn(this.model, scope)) {
        const open = run.filter((s) => this.isOpen(s));
        stack.push(...open);
        if (run.length > 1 && open.length === 1 && !this.options.unfold?.has(scope)) this.single.push({ run, shown: open[0]! });
      }
    }
  }

  /** Of the runs with one open member, those whose members hand nothing to each other, by their shown member. */
  private drawnOnce(): Map<number, number[]> {
    const once = new Map<number, number[]>();
    if (this.single.length === 0) return once;
    const scopes = this.model.trace.scopes.parent.length;
    const memberOf = new Int32Array(scopes).fill(-1);
    const runOf = new Int32Array(scopes).fill(-1);
    for (const [r, { run, shown }] of this.single.entries()) {
      for (const s of run) {
        for (const inner of this.scopesWithin(s)) {
          memberOf[inner] = s;
          runOf[inner] = r;
        }
      }
      if (!run.some((s) => this.takesFromSibling(s, r, memberOf, runOf))) once.set(shown, run);
    }
    return once;
  }

  /** Whether a value made in another member of run r is used in member s. */
  private takesFromSibling(s: number, r: number, memberOf: Int32Array, runOf: Int32Array): boolean {
    const { operands, src, childNodes, trace } = this.model;
    for (const scope of this.scopesWithin(s)) {
      for (const n of childNodes[scope]!) {
        for (let k = operands.start[n]!; k < operands.start[n + 1]!; k++) {
          const from = trace.nodes.scope[src[operands.edge[k]!]!]!;
          if (runOf[from] === r && memberOf[from] !== s) return true;
        }
      }
    }
    return false;
  }

  private scopesWithin(scope: number): number[] {
    const out = [scope];
    for (let i = 0; i < out.length; i++) out.push(...this.model.childScopes[out[i]!]!);
    return out;
  }

  /** Adds the contents of one open scope. */
  private expand(scope: number, parent: number, once: Map<number, number[]>, queue: { scope: number; parent: number }[]): void {
    const pieces: { first: number; members: number[]; open: boolean; node: number }[] = [];
    for (const node of this.model.childNodes[scope]!) {
      if (this.options.hideConstants && kindOf(this.model, node) === "const") continue;
      if (this.options.inlineCopies && copiedFor(this.model)[node]! >= 0) continue;
      pieces.push({ first: node, members: [], open: false, node });
    }
    const add = (members: number[], open: boolean) => pieces.push({ first: this.facts.first[members[0]!]!, members, open, node: -1 });
    for (const run of runsIn(this.model, scope)) {
      const shown = run.find((s) => once.has(s));
      if (shown !== undefined) {
        add([shown, ...run.filter((s) => s !== shown)], true);
        continue;
      }
      let closed: number[] = [];
      for (const s of run) {
        if (this.isOpen(s)) {
          if (closed.length > 0) add(closed, false);
          closed = [];
          add([s], true);
        } else if (this.options.unfold?.has(scope)) add([s], false);
        else closed.push(s);
      }
      if (closed.length > 0) add(closed, false);
    }
    pieces.sort((a, b) => a.first - b.first);
    for (const { members, open, node } of pieces) {
      const at = members[0] ?? scope;
      const index = this.items.push({
        kind: node >= 0 ? "node" : members.length > 1 && !open ? "run" : "scope",
        node,
        scope: at,
        parent,
        open,
        members,
        nodes: node >= 0 ? 1 : this.facts.nodes[at]!,
        params: node >= 0 ? 0 : this.facts.params[at]!,
      }) - 1;
      if (open) queue.push({ scope: at, parent: index });
    }
  }

  /** Says for every node in which item it is seen. */
  private assign(once: Map<number, number[]>): void {
    const { scope: scopeOf } = this.model.trace.nodes;
    const itemOfScope = new Int32Array(this.model.trace.scopes.parent.length).fill(-1);
    this.items.forEach((item, i) => {
      if (item.node >= 0) this.itemOf[item.node] = i;
      else if (!item.open) for (const s of item.members) itemOfScope[s] = i;
    });
    const { parent } = this.model.trace.scopes;
    for (const s of this.facts.order) if (itemOfScope[s]! < 0 && parent[s]! >= 0) itemOfScope[s] = itemOfScope[parent[s]!]!;
    for (let n = 0; n < this.model.nodes; n++) if (this.itemOf[n]! < 0) this.itemOf[n] = itemOfScope[scopeOf[n]!]!;
    if (this.options.inlineCopies) {
      copiedFor(this.model).forEach((user, n) => {
        if (user >= 0) this.itemOf[n] = this.itemOf[seenIn(this.model, n)]!;
      });
    }
    // Inner runs first: what is drawn for all may hold runs of its own, whose members are seen in the shown one.
    for (let i = this.facts.order.length - 1; i >= 0; i--) {
      const run = once.get(this.facts.order[i]!);
      if (run) this.copyInto(this.facts.order[i]!, run);
    }
  }

  /** Equal structure means that the k-th nodes of two members correspond. */
  private copyInto(shown: number, run: readonly number[]): void {
    const own = nodesWithin(this.model, shown);
    for (const s of run) {
      if (s === shown) continue;
      nodesWithin(this.model, s).forEach((n, k) => {
        this.itemOf[n] = this.itemOf[own[k]!]!;
        this.seenAs[n] = this.seenAs[own[k]!]!;
      });
    }
  }

  /**
   * A port for every value that comes from outside, and for every one that goes there. Parameters that the same boxes take
   * share one; and where there are very many, values that come from, or go to, the same part.
   */
  private addPorts(): void {
    const { src, dst, edges } = this.model;
    const inside = Uint8Array.from(this.itemOf, (i) => (i >= 0 ? 1 : 0));
    const takers = new Map<number, Set<number>>();
    const givers = new Map<number, Set<number>>();
    for (let e = 0; e < edges; e++) {
      const [from, to] = [src[e]!, dst[e]!];
      if (inside[from] === inside[to]) continue;
      if (inside[to] === 1 && this.options.hideConstants && kindOf(this.model, from) === "const") continue;
      const [key, other, map] = inside[to] === 1 ? [from, this.itemOf[to]!, takers] : [this.seenAs[from]!, to, givers];
      const seen = map.get(key);
      if (seen) seen.add(other);
      else map.set(key, new Set([other]));
    }
    const values = [...takers.keys()].filter((n) => kindOf(this.model, n) !== "param");
    const entering = group(values, (n) => (values.length <= MOST_PORTS ? `v${n}` : `s${this.partOf(n)}`));
    const params = [...takers.keys()].filter((n) => kindOf(this.model, n) === "param");
    entering.push(...group(params, (n) => [...takers.get(n)!].sort((a, b) => a - b).join()));
    for (const nodes of entering) {
      const index = this.addPort(nodes, true, nodes);
      for (const n of nodes) this.itemOf[n] = index;
    }
    const leaving = [...givers.keys()];
    const part = (n: number) => this.partOf([...givers.get(n)!][0]!);
    for (const nodes of group(leaving, (n) => (leaving.length <= MOST_PORTS ? `v${n}` : `s${part(n)}`))) {
      const index = this.addPort(nodes, false, nodes.flatMap((n) => [...givers.get(n)!]));
      for (const n of nodes) this.leaving.set(n, index);
    }
  }

  private addPort(nodes: readonly number[], entering: boolean, beyond: readonly number[]): number {
    const params = nodes.filter((n) => kindOf(this.model, n) === "param").length;
    return this.items.push({ kind: "port", node: nodes[0]!, scope: this.partOf(beyond[0]!), parent: -1, open: false, members: [], nodes: nodes.length, params, beyond, entering }) - 1;
  }

  /** The outermost scope around a node that the scope shown is not in; -1 for a node right in one around it. */
  private partOf(node: number): number {
    return partBeyond(this.model, this.options.within ?? 0, node);
  }

  private merge(): VisibleEdge[] {
    return edgesBetween(this.model, this.items, this.itemOf, this.seenAs, (from, to) => {
      const within = this.itemOf[to]!;
      // What is seen at a port is outside: it takes nothing there, and what it takes from inside leaves by one.
      const outside = within < 0 || this.items[within]!.kind === "port";
      return outside ? (this.leaving.get(this.seenAs[from]!) ?? -1) : within;
    });
  }
}

/** More values than this that come in, or go out, share ports. */
const MOST_PORTS = 8;

function group(nodes: readonly number[], key: (node: number) => string): number[][] {
  const groups = new Map<string, number[]>();
  for (const n of nodes) {
    const found = groups.get(key(n));
    if (found) found.push(n);
    else groups.set(key(n), [n]);
  }
  return [...groups.values()];
}

/** The outermost scope around a node that does not hold scope `within` as well; -1 where the node stands right in one that does. */
export function partBeyond(model: Model, within: number, node: number): number {
  const { parent } = model.trace.scopes;
  const holds = new Set<number>();
  for (let s = within; s >= 0; s = parent[s]!) holds.add(s);
  let part = -1;
  for (let s = model.trace.nodes.scope[node]!; s >= 0 && !holds.has(s); s = parent[s]!) part = s;
  return part;
}
