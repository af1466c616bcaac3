/**
 * Whether siblings of equal structure can stand as one box: what goes into them and what comes out must agree too, for the
 * box shows it. Parts side by side take the same values and give theirs to the same operation (heads); parts in a row hand
 * theirs on to each other (layers, steps of a recurrence).
 */
import { edgesAt, kindOf, type Model } from "../trace/model";
import { FLAG } from "../trace/types";

/** The siblings in one scope: which of them a node is in, and as what: its place among the nodes there. */
export interface Siblings {
  readonly member: ReadonlyMap<number, number>;
  readonly nodes: ReadonlyMap<number, Int32Array>;
}

/** Nodes in scopes and all below them, by scope. */
export function siblingsOf(model: Model, scopes: readonly number[]): Siblings {
  const member = new Map<number, number>();
  const nodes = new Map<number, Int32Array>();
  for (const s of scopes) {
    const own: number[] = [];
    const stack = [s];
    while (stack.length > 0) {
      const inner = stack.pop() as number;
      member.set(inner, s);
      own.push(...(model.childNodes[inner] as number[]));
      stack.push(...(model.childScopes[inner] as number[]));
    }
    nodes.set(s, Int32Array.from(own).sort());
  }
  return { member, nodes };
}

/** A node seen from outside of the siblings' insides: the sibling that it is in and its place there, or itself. */
interface Place {
  readonly sibling: number;
  readonly at: number;
}

export class Agreement {
  private readonly model: Model;
  private readonly siblings: Siblings;
  private readonly places = new Map<number, Place>();

  constructor(model: Model, siblings: Siblings) {
    this.model = model;
    this.siblings = siblings;
  }

  /** Whether b may stand in one box with a, which is the last of those that stand there; `first`: it is the only one. */
  agrees(a: number, b: number, first: boolean): boolean {
    return this.sourcesAgree(a, b, first) && this.usersAgree(a, b);
  }

  private sourcesAgree(a: number, b: number, first: boolean): boolean {
    const [own, other] = [this.entering(a), this.entering(b)];
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
    const [own, other] = [this.users(a), this.users(b)];
    const hands = (users: ReadonlySet<string>) => [...users].some((user) => user.startsWith("on "));
    // The last in a row gives to whatever comes behind it.
    if (hands(own) && !hands(other)) return true;
    return own.size === other.size && [...own].every((user) => other.has(user));
  }

  /** Edges into a sibling from outside, by consumer and slot. */
  private entering(s: number): number[] {
    const out: number[] = [];
    for (const n of this.nodesOf(s)) for (const e of edgesAt(this.model.operands, n)) if (this.placeOf(this.model.src[e] as number).sibling !== s) out.push(e);
    return out;
  }

  /** Who takes what from a sibling, as words that are equal where they are alike. */
  private users(s: number): Set<string> {
    const out = new Set<string>();
    for (const n of this.nodesOf(s)) {
      for (const e of edgesAt(this.model.consumers, n)) {
        const user = this.model.dst[e] as number;
        const place = this.placeOf(user);
        if (place.sibling === s) continue;
        const at = this.placeOf(n).at;
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
    return this.siblings.nodes.get(s) as Int32Array;
  }

  private placeOf(node: number): Place {
    const found = this.places.get(node);
    if (found !== undefined) return found;
    const sibling = this.siblings.member.get(this.model.trace.nodes.scope[node] as number) ?? -1;
    const place = { sibling, at: sibling < 0 ? -1 : indexIn(this.nodesOf(sibling), node) };
    this.places.set(node, place);
    return place;
  }
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

function indexIn(sorted: Int32Array, node: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < node) low = middle + 1;
    else high = middle;
  }
  return low;
}
