/** Nodes written as formulas: names, templates filled in, brackets where binding strength asks for them. */
import { num } from "../trace/decode";
import { copiedFrom } from "../fold/copies";
import { edgesAt, nameOf, opOf, recordedValue, type Model } from "../trace/model";
import { nameAndIndex, shownNumber } from "../format";
import { pieces, type Piece } from "./template";

export type Part =
  | { readonly kind: "text"; readonly text: string }
  /** A variable: its letters and its index, v and 1. */
  | { readonly kind: "name"; readonly name: string; readonly index: string; readonly node: number }
  | { readonly kind: "number"; readonly text: string; readonly node: number }
  | { readonly kind: "raised" | "lowered"; readonly parts: readonly Part[] }
  /** What one node computes. */
  | { readonly kind: "group"; readonly node: number; readonly parts: readonly Part[] };

/** `name = parts`, for the root and for what is computed once and used twice. */
export interface Equation {
  readonly node: number;
  readonly parts: readonly Part[];
}

const CALL = 9;
/** Expressions longer than this are named and written as equations of their own. */
const LONG = 44;

function splitName(name: string): Called {
  const [letters, index] = nameAndIndex(name);
  return { name: letters, index };
}

interface Called {
  readonly name: string;
  readonly index: string;
}

const callings = new WeakMap<Model, readonly Called[]>();

/**
 * What each node is called: its name, with a number where several have the same one (`t = t + ...` in a loop), or "v"
 * and its row where it has none.
 */
function callingsOf(model: Model): readonly Called[] {
  const known = callings.get(model);
  if (known !== undefined) return known;
  const names = shortened(Array.from({ length: model.nodes }, (_, node) => nameOf(model, node) || `v${node}`));
  const uses = new Map<string, number>();
  for (const name of names) uses.set(name, (uses.get(name) ?? 0) + 1);
  const met = new Map<string, number>();
  const made = names.map((name) => {
    if (uses.get(name) === 1) return splitName(name);
    const turn = (met.get(name) ?? 0) + 1;
    met.set(name, turn);
    // t1 may be a name of its own.
    return { name, index: uses.has(`${name}${turn}`) ? `(${turn})` : String(turn) };
  });
  callings.set(model, made);
  return made;
}

/**
 * Paths without the beginning that tells nothing apart: "hidden.weight" for "model.hidden.weight", where no other path
 * ends so. No path is cut before a number, which says nothing by itself.
 */
export function shortened(names: readonly string[]): string[] {
  const ends = new Map<string, number>();
  const paths = new Set(names.filter((name) => name.includes(".")));
  const endsOf = (path: string) => [...path.matchAll(/\.(?!\d)/g)].map(({ index }) => path.slice(index + 1)).reverse();
  for (const name of new Set(names)) {
    for (const end of [name, ...endsOf(name)]) ends.set(end, (ends.get(end) ?? 0) + 1);
  }
  return names.map((name) => (paths.has(name) ? (endsOf(name).find((end) => ends.get(end) === 1) ?? name) : name));
}

export function calledOf(model: Model, node: number): Called {
  // A copy that nobody wrote is called what it is a copy of.
  return callingsOf(model)[copiedFrom(model, node)] ?? { name: `v${node}`, index: "" };
}

/** The same in plain text. */
export function plainName(model: Model, node: number): string {
  const { name, index } = calledOf(model, node);
  return name + index;
}

export function namePart(model: Model, node: number): Part {
  return { kind: "name", ...calledOf(model, node), node: copiedFrom(model, node) };
}

/** The node that a second name (a root without an operation) stands for. */
export function originOf(model: Model, node: number): number {
  let at = node;
  while ((model.trace.nodes.op[at] as number) < 0) {
    const edge = edgesAt(model.operands, at)[0];
    if (edge === undefined) return at;
    at = model.src[edge] as number;
  }
  return at;
}

interface Written {
  readonly parts: readonly Part[];
  readonly precedence: number;
  readonly length: number;
}

/** What a node computes, its operands as given by `operand`. */
function write(model: Model, node: number, operand: (node: number) => Written): Written {
  const { ops, nodes } = model.trace;
  const op = nodes.op[node] as number;
  const filled = operandsBySlot(model, node, operand);
  const form = ops.form[op] ?? "";
  if (form === "") {
    const args = filled.filter((arg) => arg !== undefined);
    const parts: Part[] = [{ kind: "text", text: `${opOf(model, node)}(` }];
    args.forEach((arg, i) => {
      if (i > 0) parts.push({ kind: "text", text: ", " });
      parts.push(...arg.parts);
    });
    parts.push({ kind: "text", text: ")" });
    return written(parts, CALL);
  }
  return written(
    fill(pieces(form), filled, ops.precedence[op] ?? CALL, written([namePart(model, node)], CALL)),
    ops.precedence[op] ?? CALL,
  );
}

function operandsBySlot(model: Model, node: number, operand: (node: number) => Written): Written[] {
  const filled: Written[] = [];
  for (const edge of edgesAt(model.operands, node)) {
    filled[model.slot[edge] as number] = operand(model.src[edge] as number);
  }
  const literals = model.trace.ops.literals?.[model.trace.nodes.op[node] as number] ?? {};
  for (const [slot, value] of Object.entries(literals)) {
    filled[Number(slot)] = written([{ kind: "number", text: shownNumber(num(value)), node }], CALL);
  }
  return filled;
}

/** A template with its holes filled, and brackets around what binds too loosely for its place. */
function fill(
  template: readonly Piece[],
  operands: readonly (Written | undefined)[],
  precedence: number,
  out: Written,
): Part[] {
  return template.flatMap((piece, i): Part[] => {
    if (piece.kind === "text") return [{ kind: "text", text: piece.text }];
    if (piece.kind !== "hole") {
      // What is raised or lowered stands by itself.
      return [{ kind: piece.kind, parts: fill(piece.pieces, operands, 0, out) }];
    }
    const arg = piece.slot < 0 ? out : operands[piece.slot];
    if (arg === undefined) return [{ kind: "text", text: "·" }];
    const needs = piece.bracketed ? 0 : needed(template, i, precedence);
    const minus = i > 0 && needs > 0 && leadingText(arg.parts).startsWith("−");
    return arg.precedence < needs || minus
      ? [{ kind: "text", text: "(" }, ...arg.parts, { kind: "text", text: ")" }]
      : [...arg.parts];
  });
}

/** How strongly an operand must bind to stand at piece `i` without brackets. */
function needed(template: readonly Piece[], i: number, precedence: number): number {
  const after = template[i + 1];
  const raisedNext = after?.kind === "raised";
  const before = template[i - 1];
  const sign = before?.kind === "text" ? before.text.trim().slice(-1) : "";
  // (x²)³, a − (b − c), a / (b · c), −(a + b), √(a · b)
  const tighter = raisedNext || sign === "/" || sign === "√" || ((sign === "−" || sign === "-") && i > 1);
  return tighter ? precedence + 1 : precedence;
}

function leadingText(parts: readonly Part[]): string {
  const first = parts[0];
  if (first === undefined) return "";
  if (first.kind === "text" || first.kind === "number") return first.text;
  return first.kind === "group" ? leadingText(first.parts) : "";
}

function written(parts: readonly Part[], precedence: number): Written {
  return { parts, precedence, length: plain(parts).length };
}

/** The formulas of a graph, the root's last. */
export function equationsOf(model: Model, root: number): Equation[] {
  const equations: Equation[] = [];
  const known = new Map<number, Written>();
  const target = originOf(model, root);
  // Operands have smaller rows, so that one pass upwards meets them first.
  for (const node of dependencies(model, target)) {
    const body = bodyOf(model, node, (operand) => known.get(operand) as Written);
    const isLeaf = edgesAt(model.operands, node).length === 0;
    const uses = edgesAt(model.consumers, node).length;
    if (isLeaf || node === target) {
      known.set(node, body);
    } else if (body.length > LONG || (uses > 1 && body.length > 3)) {
      equations.push({ node, parts: body.parts });
      known.set(node, written([namePart(model, node)], CALL));
    } else {
      known.set(node, body);
    }
  }
  equations.push({ node: root, parts: known.get(target)?.parts ?? [] });
  return equations;
}

function bodyOf(model: Model, node: number, operand: (node: number) => Written): Written {
  if (edgesAt(model.operands, node).length === 0) return written([leafPart(model, node)], CALL);
  if ((model.trace.nodes.op[node] as number) < 0) return operand(originOf(model, node));
  const { parts, precedence } = write(model, node, operand);
  return written([{ kind: "group", node, parts }], precedence);
}

function leafPart(model: Model, node: number): Part {
  const value = recordedValue(model, node);
  return nameOf(model, node) === "" && value !== null
    ? { kind: "number", text: shownNumber(value), node }
    : namePart(model, node);
}

function dependencies(model: Model, root: number): number[] {
  const seen = new Set([root]);
  for (const node of seen) {
    for (const edge of edgesAt(model.operands, node)) seen.add(model.src[edge] as number);
  }
  return [...seen].sort((a, b) => a - b);
}

/** One node's own operation over the names of its operands: "v1 + b". */
export function recordOf(model: Model, node: number): readonly Part[] {
  if (edgesAt(model.operands, node).length === 0) return [leafPart(model, node)];
  const name = (operand: number) => written([leafPart(model, copiedFrom(model, operand))], CALL);
  if ((model.trace.nodes.op[node] as number) < 0) {
    return name(model.src[edgesAt(model.operands, node)[0] as number] as number).parts;
  }
  return write(model, node, name).parts;
}

/** The same over numbers: "2 · 3", every operand as `number` shows it. */
export function numbersOf(model: Model, node: number, number: (node: number) => string): readonly Part[] {
  const operand = (row: number) => numberWritten(number(row), row);
  if ((model.trace.nodes.op[node] as number) < 0) return [];
  return write(model, node, operand).parts;
}

/** A negative number binds as a sum does: it gets brackets inside products and powers. */
function numberWritten(text: string, node: number): Written {
  return written([{ kind: "number", text, node }], text.startsWith("−") ? 1 : CALL);
}

/** A local derivative, its operands by name or (with `number`) by what they are; null where none can be written. */
export function localOf(
  model: Model,
  node: number,
  slot: number,
  number?: (node: number) => string,
): readonly Part[] | null {
  const template = model.trace.ops.local[model.trace.nodes.op[node] as number]?.[slot] ?? "";
  if (template === "") return null;
  const operand = (row: number) =>
    number === undefined ? written([leafPart(model, row)], CALL) : numberWritten(number(row), row);
  const out = number === undefined ? written([namePart(model, node)], CALL) : numberWritten(number(node), node);
  return fill(pieces(template), operandsBySlot(model, node, operand), template.includes(" ") ? 2 : 0, out);
}

/** As plain text, for labels and tests. */
export function plain(parts: readonly Part[]): string {
  return parts
    .map((part) => {
      switch (part.kind) {
        case "text":
        case "number":
          return part.text;
        case "name":
          return part.name + part.index;
        case "group":
          return plain(part.parts);
        case "raised": {
          const inner = plain(part.parts);
          return inner.length === 1 ? `^${inner}` : `^(${inner})`;
        }
        case "lowered":
          return `_${plain(part.parts)}`;
      }
    })
    .join("");
}

/** Whether a formula holds what a node computes. */
export function holds(parts: readonly Part[], node: number): boolean {
  return parts.some((part) => {
    if (part.kind === "group") return part.node === node || holds(part.parts, node);
    if (part.kind === "raised" || part.kind === "lowered") return holds(part.parts, node);
    return (part.kind === "name" || part.kind === "number") && part.node === node;
  });
}
