/**
 * Finding nodes and modules by what is known of them. Every part of a query must hold:
 *
 *   tanh attn        words in module path, name, operation, kind
 *   [8, 64, 96]      the shape; `*` stands for any length, 8x64x96 says the same
 *   model.py:12      the line (12-20: lines) of the program that it comes from
 *   >1MB <=4096      bytes (with a unit: B, kB, MB, GB) or elements
 *   float32          the dtype
 *   nan inf          in its value or its gradient
 *   dead             zero everywhere, or named by a finding about dead units
 *   "no gradient"    could have one, and none came; "zero gradient": it came and is zero
 */
import { dtypeOf, nameOf, opOf, originOf, scopePath, shapeOf, text, type Model } from "./trace/model";
import { FLAG, NODE_KINDS } from "./trace/types";
import { shownShape } from "./format";
import type { Selection } from "./state";

export interface Hit {
  readonly selection: NonNullable<Selection>;
  readonly title: string;
  readonly where: string;
  readonly more: string;
}

export interface Found {
  readonly hits: readonly Hit[];
  readonly total: number;
  /** Rows of all nodes that were found, ascending; not those that only stand in a module that was. */
  readonly rows: readonly number[];
}

const LIMIT = 60;
const NOTHING: Found = { hits: [], total: 0, rows: [] };

type Test = (node: number) => boolean;

/** The first hits for a query, modules before nodes. */
export function search(model: Model, query: string, limit = LIMIT): Found {
  const { words, tests } = readQuery(model, query);
  if (words.length === 0 && tests.length === 0) return NOTHING;
  const known = wordsOf(model);
  const hits: Hit[] = [];
  const rows: number[] = [];
  let modules = 0;
  const { scopes, nodes } = model.trace;
  // What a module is asked for is in its path; nodes have all else.
  for (let row = 1; row < scopes.parent.length && tests.length === 0; row++) {
    if (!words.every((word) => (known.paths[row] as string).includes(word))) continue;
    if (++modules > limit) continue;
    const path = scopePath(model, row);
    hits.push({ selection: { kind: "scope", row }, title: text(model, scopes.name[row]), where: path.slice(0, -1).join(" › "), more: scopes.kind[row] ?? "" });
  }
  for (let row = 0; row < model.nodes; row++) {
    if (!tests.every((test) => test(row))) continue;
    if (words.length > 0) {
      const op = nodes.op[row] as number;
      const kind = known.kinds[nodes.kind[row] as number] as string;
      const origin = originOf(model, "nodes", row);
      const said = `${known.paths[nodes.scope[row] as number]}.${known.strings[nodes.name[row] as number] ?? ""} ${op < 0 ? kind : known.ops[op]} ${kind} ${origin === null ? "" : `${origin.operator} ${origin.name}`.toLowerCase()}`;
      if (!words.every((word) => said.includes(word))) continue;
    }
    rows.push(row);
    if (hits.length < limit) hits.push(hitOf(model, row));
  }
  return { hits, total: modules + rows.length, rows };
}

function hitOf(model: Model, row: number): Hit {
  const name = nameOf(model, row);
  const op = opOf(model, row);
  return {
    selection: { kind: "node", row },
    title: name === "" || name === op ? op : `${name} = ${op}`,
    where: scopePath(model, model.trace.nodes.scope[row] as number).join(" › "),
    more: `${dtypeOf(model, row)} ${shownShape(shapeOf(model, row))}`,
  };
}

interface Words {
  /** Paths of scopes, names, operations and kinds in small letters, each once. */
  paths: string[];
  strings: string[];
  ops: string[];
  kinds: string[];
}

const worded = new WeakMap<Model, Words>();

function wordsOf(model: Model): Words {
  const before = worded.get(model);
  if (before !== undefined) return before;
  const { scopes, strings, ops } = model.trace;
  const low = strings.map((s) => s.toLowerCase());
  const paths: string[] = [];
  // Parents stand before their children.
  scopes.parent.forEach((parent, row) => {
    const own = low[scopes.name[row] as number] ?? "";
    paths.push(parent < 0 ? "" : parent === 0 ? own : `${paths[parent]}.${own}`);
  });
  const made = { paths, strings: low, ops: ops.name.map((name) => name.toLowerCase()), kinds: NODE_KINDS.map((kind) => kind.toLowerCase()) };
  worded.set(model, made);
  return made;
}

// -- queries

const PHRASES: readonly [RegExp, (model: Model) => Test][] = [
  [/\b(?:no|missing|without) grad(?:ient)?s?\b/g, hasNone],
  [/\bzero grad(?:ient)?s?\b/g, (model) => (n) => model.gradientCode[n] === 1],
];

const WORDS: Readonly<Record<string, (model: Model) => Test>> = {
  nan: (model) => flagged(model, FLAG.nanForward | FLAG.nanBackward),
  inf: (model) => flagged(model, FLAG.infForward | FLAG.infBackward),
  dead: deadIn,
};

function readQuery(model: Model, query: string): { words: string[]; tests: Test[] } {
  const tests: Test[] = [];
  let rest = query.toLowerCase();
  for (const [phrase, test] of PHRASES) {
    if (rest.search(phrase) < 0) continue;
    rest = rest.replace(phrase, " ");
    tests.push(test(model));
  }
  // A shape may have spaces in it.
  rest = rest.replace(/[[(]([\d*?,\s]*)[\])]/g, (_, inside: string) => {
    tests.push(shaped(model, inside.split(",").map((part) => part.trim()).filter((part) => part !== "")));
    return " ";
  });
  const dtypes = new Set(model.trace.nodes.dtype.map((row) => text(model, row)));
  const words: string[] = [];
  for (const word of rest.split(/\s+/)) {
    if (word === "") continue;
    const test = WORDS[word]?.(model) ?? (dtypes.has(word) ? (n: number) => dtypeOf(model, n) === word : (sized(model, word) ?? placed(model, word) ?? byLengths(model, word)));
    if (test === null) words.push(word);
    else tests.push(test);
  }
  return { words, tests };
}

function flagged(model: Model, bits: number): Test {
  const { flags } = model.trace.nodes;
  return (n) => ((flags[n] as number) & bits) !== 0;
}

/** Values that are zero everywhere, of what was computed; and the nodes of findings about dead units. */
function deadIn(model: Model): Test {
  const named = new Set(model.trace.findings.filter((f) => f.rule.startsWith("dead")).map((f) => f.node));
  return (n) => named.has(n) || ((model.trace.nodes.op[n] as number) >= 0 && model.valueCode[n] === 1);
}

function hasNone(model: Model): Test {
  const { flags } = model.trace.nodes;
  return (n) => ((flags[n] as number) & FLAG.tracked) !== 0 && ((flags[n] as number) & FLAG.seenBackward) === 0 && model.gradientCode[n] === 0;
}

function shaped(model: Model, lengths: readonly string[]): Test {
  const fits = model.trace.shapes.map((shape) => shape.length === lengths.length && lengths.every((length, i) => /^[*?]$/.test(length) || Number(length) === shape[i]));
  return (n) => fits[model.trace.nodes.shape[n] as number] === true;
}

/** `8x64x96` */
function byLengths(model: Model, word: string): Test | null {
  return /^[\d*?]+([x×][\d*?]+)+$/.test(word) ? shaped(model, word.split(/[x×]/)) : null;
}

const UNITS: Readonly<Record<string, number>> = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9 };

/** `>1MB`: bytes; `>=4096`: elements. */
function sized(model: Model, word: string): Test | null {
  const found = /^([<>]=?|=)([\d.]+)(b|kb|mb|gb)?$/.exec(word);
  if (found === null) return null;
  const [, sign, number, unit] = found as unknown as [string, string, string, string | undefined];
  const limit = Number(number) * (unit === undefined ? 1 : (UNITS[unit] as number));
  const elements = model.trace.shapes.map((shape) => shape.reduce((a, b) => a * b, 1));
  const size = (n: number) => (elements[model.trace.nodes.shape[n] as number] as number) * (unit === undefined ? 1 : itemBytes(dtypeOf(model, n)));
  switch (sign) {
    case ">":
      return (n) => size(n) > limit;
    case ">=":
      return (n) => size(n) >= limit;
    case "<":
      return (n) => size(n) < limit;
    case "<=":
      return (n) => size(n) <= limit;
    default:
      return (n) => size(n) === limit;
  }
}

/** From the dtype's name: float32 has 4 bytes, bool one. */
function itemBytes(dtype: string): number {
  const bits = /(\d+)/.exec(dtype)?.[1];
  return bits === undefined ? 1 : Math.max(1, Number(bits) / 8);
}

/** `model.py:12`, `:12`, `model.py:12-20`: what comes from these lines. */
function placed(model: Model, word: string): Test | null {
  const found = /^(\S*):(\d+)(?:-(\d+))?$/.exec(word);
  if (found === null) return null;
  const [, file, first, last] = found as unknown as [string, string, string, string | undefined];
  const { spans, files, nodes } = model.trace;
  const [from, to] = [Number(first), Number(last ?? first)];
  const fits = spans.file.map((row, i) => (spans.line0[i] as number) <= to && (spans.line1[i] as number) >= from && (files[row]?.path ?? "").toLowerCase().endsWith(file));
  return (n) => fits[nodes.span[n] as number] === true;
}
