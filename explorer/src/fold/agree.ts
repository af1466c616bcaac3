/**
 * Whether siblings of equal structure can stand as one box: what goes into them and what comes out must agree too, for the
 * box shows it. Parts side by side take the same values and give theirs to the same operation (heads); parts in a row hand
 * theirs on to each other (layers, steps of a recurrence).
 */
import { edgesAt, kindOf, type Model } from "../trace/model";
import { FLAG } from "../trace/types";

/** The nodes in scopes and all below them, by scope. */
export type Siblings = ReadonlyMap<number, Int32Array>;

export function siblingsOf(model: Model, scopes: readonly number[]): Siblings {
  const nodes = new Map<number, Int32Array>();
  for (const s of scopes) {
    const own: number[] = [];
    const stack = [s];
    while (stack.length > 0) {
      const inner = stack.pop() as number;
      own.push(...(model.childNodes[inner] as number[]));
      stack.push(...(model.childScopes[inner] as number[]));
    }
    nodes.set(s, Int32Array.from(own).sort());
  }
  return nodes;
}

/** A node seen from outside of the siblings' insides: the sibling that it is in and its place there, or itself. */
interface Place {
  readonly sibling: number;
  readonly at: number;
}

export class Agreement {
  private readonly model: Model;
  private readonly siblings: Siblings;
  /** For every node the sibling that it is in, and its place there; -1 for none. */
  private readonly siblingOf: Int32Array;
  private readonly atOf: Int32Array;
  // Each sibling is asked about twice: with the one before it, and with the one behind.
  private readonly known = { users: new Map<number, Set<string>>(), entering: new Map<number, number[]>() };

  constructor(model: Model, siblings: Siblings) {
    this.model = model;
    this.siblings = siblings;
    [this.siblingOf, this.atOf] = placesFor(model);
    for (const [sibling, nodes] of siblings) {
      for (let k = 0; k < nodes.length; k++) {
        this.siblingOf[nodes[k] as number] = sibling;
        this.atOf[nodes[k] as number] = k;
      }
    }
  }

  /** Leaves what is shared as it was found. */
  done(): void {
    for (const nodes of this.siblings.values()) for (const n of nodes) this.siblingOf[n] = this.atOf[n] = -1;
  }

  /** Whether b may stand in one box with a, which is the last of those that stand there; `first`: it is the only one. */
  agrees(a: number, b: number, first: boolean): boolean {
    return this.sourcesAgree(a, b, first) && this.usersAgree(a, b);
  }

  private sourcesAgree(a: number, b: number, first: boolean): boolean {
    const entering = (s: number) => remembered(this.known.entering, s, () => this.entering(s));
    const [own, other] = [entering(a), entering(b)];
    return own.length === other.length && own.every((edge, i) => this.sourceAgrees(edge, other[i] as number, a, b, first));
  }

  private sourceAgrees(ea: number, eb: number, a: number, b: number, first: boolean): boolean {
    const { model } = this;
    const [sa, sb] = [model.src[ea] as number, model.src[eb] as number];
    if (model.slot[ea] !== model.slot[eb] || this.placeOf(model.dst[ea] as number).at !== this.placeOf(model.dst[eb] as number).at) return false;
    const [ka, kb] = [kindOf(model, sa), kindOf(model, sb)];
    if (ka === kb && (ka === "param" || ka === "const")) return true;
    if (shownBy(model, sa) === shownBy(model, sb)) return true;
    const [pa, pb] = [this.placeOf(sa), this.placeOf(sb)];
    if (this.correspond(pa, pb)) return true;
    // The first in a row has from outside what the others have from the one before.
    return first && pb.sibling === a && this.like(pb.sibling, b) && !this.like(pa.sibling, b);
  }

  private usersAgree(a: number, b: number): boolean {
    const usersOf = (s: number) => remembered(this.known.users, s, () => this.users(s));
    const [own, other] = [usersOf(a), usersOf(b)];
    const hands = (users: ReadonlySet<string>) => [...users].some((user) => user.startsWith("on "));
    // The last in a row gives to whatever comes behind it.
    if (hands(own) && !hands(other)) return true;
    return own.size === other.size && [...own].every((user) => other.has(user));
  }

  /** Edges into a sibling from outside, by consumer and slot. */
  private entering(s: number): number[] {
    const out: number[] = [];
    for (const n of this.nodesOf(s)) for (const e of edgesAt(this.model.operands, n)) if (this.siblingOf[this.model.src[e] as number] !== s) out.push(e);
    return out;
  }

  /** Who takes what from a sibling, as words that are equal where they are alike. */
  private users(s: number): Set<string> {
    const out = new Set<string>();
    for (const n of this.nodesOf(s)) {
      for (const e of edgesAt(this.model.consumers, n)) {
        const user = this.model.dst[e] as number;
        if (this.siblingOf[user] === s) continue;
        const place = this.placeOf(user);
        const at = this.atOf[n];
        const like = place.sibling >= 0 ? this.hashOf(place.sibling) : -1;
        if (like >= 0 && like === this.hashOf(s)) out.add(`on ${at} ${place.at}`);
        else out.add(like < 0 ? `${at} node ${user}` : `${at} part ${like} ${place.at}`);
      }
    }
    return out;
  }

  /** Nodes at one place in siblings of one structure. */
  private correspond(a: Place, b: Place): boolean {
    return a.sibling >= 0 && this.like(a.sibling, b.sibling) && a.at === b.at;
  }

  private like(a: number, b: number): boolean {
    return a >= 0 && b >= 0 && this.hashOf(a) === this.hashOf(b);
  }

  private hashOf(scope: number): number {
    return this.model.trace.scopes.hash[scope] as number;
  }

  private nodesOf(s: number): Int32Array {
    return this.siblings.get(s) as Int32Array;
  }

  private placeOf(node: number): Place {
    return { sibling: this.siblingOf[node] as number, at: this.atOf[node] as number };
  }
}

/** Columns of a model's size, one pair for all agreements of it: they are made one after the other. */
const columns = new WeakMap<Model, [Int32Array, Int32Array]>();

function placesFor(model: Model): [Int32Array, Int32Array] {
  let found = columns.get(model);
  if (found === undefined) columns.set(model, (found = [new Int32Array(model.nodes).fill(-1), new Int32Array(model.nodes).fill(-1)]));
  return found;
}

function remembered<T>(known: Map<number, T>, key: number, make: () => T): T {
  let found = known.get(key);
  if (found === undefined) known.set(key, (found = make()));
  return found;
}

/** What a view shows a part of; anything else shows itself. */
function shownBy(model: Model, node: number): number {
  let at = node;
  while (((model.trace.nodes.flags[at] as number) & FLAG.view) !== 0) {
    const [first] = edgesAt(model.operands, at);
    if (first === undefined) break;
    at = model.src[first] as number;
  }
  return at;
}
