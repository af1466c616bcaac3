/**
 * `wengert.trace/1`: one recorded run, which every view is a projection of.
 *
 * Tables are columnar: the arrays of one table are equally long, and a row number is an identity.
 * `nodes` stand in the order in which they came to be: a node's operands have smaller row numbers.
 * -1 stands for "none" in columns that point to other tables. Numbers that JSON lacks travel as the
 * strings "nan", "inf" and "-inf". Readers ignore keys that they do not know; a change that older
 * readers would misunderstand gets another major version.
 *
 * A column of whole numbers may be written as `{"delta": [...]}`, each number as the difference to the one before it
 * (the first to 0), which packs well where there are many rows; `parse` puts the numbers themselves in its place, so
 * that nobody else sees it. Documents of more than 3000 nodes give numbers to four digits and details only where they
 * are asked about first: of parameters, results, the first of each repeated part, and what findings name.
 *
 * The JSON Schema beside the Python writer (`wengert/explorer/trace.schema.json`) says the same for
 * every other language; a test holds the two together.
 */

/** A number, or the name of one that JSON lacks. */
export type Num = number | "nan" | "inf" | "-inf";

/** What happens to gradients at an operation. */
export type Pattern = "distribute" | "swap" | "route" | "accumulate" | "scale" | "custom" | "none";

export type NodeKind = "input" | "param" | "const" | "op" | "root";
export const NODE_KINDS: readonly NodeKind[] = ["input", "param", "const", "op", "root"];

export type ScopeKind = "root" | "module" | "function" | "loop" | "iteration" | "line" | "checkpoint";

export type Phase = "forward" | "backward" | "optimizer" | "recompute";
export const PHASES: readonly Phase[] = ["forward", "backward", "optimizer", "recompute"];

export type BufferClass = "value" | "saved" | "gradient" | "work" | "param";
export const BUFFER_CLASSES: readonly BufferClass[] = ["value", "saved", "gradient", "work", "param"];

/** Bits of `nodes.flags`. */
export const FLAG = {
  tracked: 1, // gradient can flow here
  seenBackward: 2, // the backward pass came by: it has a gradient
  nanForward: 4,
  nanBackward: 8,
  infForward: 16,
  infBackward: 32,
  view: 64, // shares its operand's memory
  composite: 128, // one operation that is made of others
} as const;

export interface Trace {
  schema: "wengert.trace/1";
  meta: Meta;
  strings: string[];
  shapes: number[][];
  ops: Ops;
  scopes: Scopes;
  nodes: Nodes;
  edges: Edges;
  /** What the tape keeps for the backward pass: node `node` keeps the value of node `value` (a row of `nodes`). Large documents
   * write `value` as `{"operand": [...]}`, the slot of the operand whose value it is, -1 for the node's own. */
  saved: { node: number[]; value: number[] };
  stats: Stats;
  events: Events;
  buffers: Buffers;
  spans: Spans;
  files: SourceFile[];
  findings: Finding[];
  kernels?: Kernels;
  /** The run again, node by node by the scheduler, and step by step by compiled code. */
  parallel?: Parallel;
  native?: Parallel;
  /** Timelines of the ranks of a mesh. */
  ranks?: Ranks;
  /** Of an answer about batching, which has no nodes. */
  batching?: Batched;
  /** Where tensors are on the way and there are few nodes. */
  paths?: TensorPaths;
  /** What float64 makes of the nodes that errors name, by row. */
  replays?: Readonly<Record<string, InFloat64>>;
  /** What the program took out of the graph as numbers before its last operation; absent where it did not. */
  reads?: ValueRead[];
  memory?: MemoryFacts;
  /** The nodes of a document, such as an ONNX model, that the run's came from. */
  origins?: Origins;
  checkpoint?: CheckpointWhatIf;
  diff?: TraceDiff;
}

/** A node's value and gradient in float64, and how far the recorded ones are from them, as parts of their size. */
export interface InFloat64 {
  readonly value: Details | null;
  readonly gradient: Details | null;
  readonly valueError: Num | null;
  readonly gradientError: Num | null;
}

export interface Meta {
  /** What the page is called: `lesson.py` and `loss(x, t)`. */
  script: string;
  title: string;
  wengert: string;
  /** Rows of `nodes` that are the results, the loss first. */
  roots: number[];
  /** Whether values were recorded; without them only the structure is shown. */
  values: boolean;
  /** Training step, where the run was one of many. */
  step?: number;
  /** Wall time of the recorded run in seconds, recording included. */
  seconds?: number;
  /** Whether a kernel-side session answers requests for whole tensors. */
  live?: boolean;
  /** What ended the run early: an exception's class, text, and file:line. What happened until then is there. */
  error?: { type: string; text: string; at?: string };
  /** What a reader should know of how the run was made: "Shown are the gradients of the sum of its elements." */
  notes?: string[];
  /** Parameters are those of a file that was opened: a model, or weights alone. */
  stored?: boolean;
  /** Inputs that were made for the run of a model. */
  inputs?: MadeInputs;
}

/** Inputs made from what a document says of them; sizes of axes by the names that it has for them. */
export interface MadeInputs {
  seed: number;
  sizes: { [name: string]: number };
  /** `how`: "normal", "ones", "given", or what was asked for. */
  list: { name: string; dtype: string; shape: number[]; how: string }[];
}

/** Which entry of `list` nodes and scopes (rows of both) came from; -1 for none. */
export interface Origins {
  nodes: number[];
  scopes: number[];
  list: Origin[];
}

/** A node of a document: what it says, and where in the exporting program it came from. */
export interface Origin {
  operator: string;
  name: string;
  inputs: string[];
  outputs: string[];
  domain?: string;
  doc?: string;
  /** Numbers, text and lists of such; of tensors and graphs what they are. */
  attributes?: { [name: string]: unknown };
  /** The first sentence of the operator's documentation. */
  about?: string;
  program?: { file: string; line: number; function: string; text: string };
}

/**
 * The operations that occur, each once with each choice of attributes and literal operands.
 *
 * `form` and `local` are templates: {0} is the first operand, {out} the result. `^` raises what follows it (a hole, a
 * word or number, or a bracketed group) and `_` lowers it; "{0}²" says the same as "{0}^2". Literal operands are
 * written into the template: "{0}²" for a power whose exponent is the number 2.
 */
export interface Ops {
  name: string[];
  /** What stands in a node: a symbol such as "×", or a short name. */
  symbol: string[];
  pattern: Pattern[];
  /** The formula, such as "{0} · {1}"; "" where there is none and name(...) is shown. */
  form: string[];
  /** Binding strength of `form`: 0 loosest; 1 sums, 2 products, 3 signs, 4 powers, 9 calls and names. */
  precedence: number[];
  /** Per operand, the local derivative as a template, "" where there is none to write. */
  local: string[][];
  /** One plain sentence on what happens going back: "Multiplication hands each input the *other* one's value." */
  say: string[];
  /** Attributes by their names in the op table: {"negative_slope": 0.01}, {"axis": [0], "keepdims": false}. */
  attrs?: { [name: string]: unknown }[];
  /** Operands that are plain numbers, by slot: {"1": 2} for a power whose exponent is 2. They have no edges. */
  literals?: { [slot: string]: Num }[];
  /** For an operation that is declared by a formula of others, what it is of single numbers. */
  formula?: (Formula | null)[];
}

/** A step's number, -1 - i for argument i, an attribute's name, or a number in a list. */
export type FormulaOperand = number | string | [Num];

/** What a result is of single numbers: steps, each an operation and its operands, and which of them is the result. */
export interface Formula {
  parts: [string, ...FormulaOperand[]][];
  result: FormulaOperand;
}

/** The tree that nodes fold into; row 0 is the whole run. `hash` is equal for parts of the same structure. */
export interface Scopes {
  parent: number[];
  name: number[]; // strings
  kind: ScopeKind[];
  hash: number[]; // strings
}

export interface Nodes {
  op: number[]; // ops; -1 for leaves
  scope: number[];
  kind: number[]; // NODE_KINDS
  name: number[]; // strings: x, w, v1, or a parameter's path; "" (row) where none
  dtype: number[]; // strings
  shape: number[]; // shapes
  span: number[]; // spans
  flags: number[];
  /** Operations counted as in `wg.explain.cost`. */
  flops: Num[];
}

/** Operands. Sorted by `dst`, then `slot`; `dst` is stored as the difference to the row before, `src` as dst - src. */
export interface Edges {
  dst: number[];
  src: number[];
  slot: number[];
  /** Local derivative, where both ends are single numbers; else null. The column is absent where none is. */
  slope?: (Num | null)[];
  /** Size (rms) of the gradient that went along the edge, coded as in `Stats`. Base64 of bytes; absent without backward. */
  gradient?: string;
  /** What went back along the edge, in documents of few nodes: the number itself, of more elements their rms; null for none. */
  amount?: (Num | null)[];
}

/**
 * What is known of values (0) and gradients (1).
 *
 * `rms` is the base64 of one byte a node: 0 none, 1 exactly zero, 254 infinities, 255 NaNs in it, else
 * 2 ** ((code - 128) / 4) is the root mean square of the finite elements.
 * `size`, in documents of few nodes, is the root mean square to six digits: codes are for drawing, and tell sizes a tenth
 * apart. `scalar` holds the exact number of one-element values (null for others). `details`, for chosen nodes
 * only, holds more, by row number.
 */
export interface Stats {
  value: PassStats;
  gradient: PassStats;
}

export interface PassStats {
  rms: string;
  scalar: (Num | null)[];
  /** null of one element, and where not all elements are finite. */
  size?: (Num | null)[];
  details: { [row: string]: Details };
}

export interface Details {
  min: Num;
  max: Num;
  mean: Num;
  std: Num;
  nan: number;
  inf: number;
  zero: number;
  size: number;
  /** Whether the elements are complex, and all is told of |x|. */
  modulus?: true;
  /** Counts of the finite elements in equal steps from min to max. */
  hist: number[];
  /** All elements in row-major order, where there are at most 64. */
  values?: Num[];
  /** A picture of a larger tensor: `rows` x `cols` cells, each the mean of |x| of what it covers, "nan"/"inf" if any is. */
  cells?: { rows: number; cols: number; values: Num[]; labels?: string[] };
}

/** What happened, in order: the clock. Position k of the cursor means that the first k events have happened. */
export interface Events {
  phase: number[]; // PHASES
  node: number[]; // nodes; for backward: the node whose gradient is handed on
  /** Microseconds since the run began; durations. */
  t0: number[];
  dur: number[];
  thread: number[];
}

/**
 * Memory: a buffer lives from event `first` (it is there after that event) to event `last` (gone after it); -1: from the
 * beginning. Large documents write `node` as `{"operand": [...]}`: by the node of event `first`, -1 for itself, else the slot
 * of its operand; below that -2 minus a node's row.
 */
export interface Buffers {
  bytes: number[];
  class: number[]; // BUFFER_CLASSES
  node: number[];
  first: number[];
  last: number[];
}

export interface Spans {
  file: number[];
  line0: number[];
  col0: number[]; // in characters, from 0
  line1: number[];
  col1: number[];
}

/** A source file: only the pieces that spans (and two lines around them) need. */
export interface SourceFile {
  path: string;
  pieces: { line: number; text: string[] }[];
}

export interface Finding {
  /** Which rule: nan-forward, nan-backward, dead-relu, vanishing, exploding, missing-gradient, unused-parameter, unread-saved, ... */
  rule: string;
  severity: "error" | "warning" | "note";
  title: string; // "NaN born going back"
  where: string; // "blocks.7 › q_norm › sqrt"
  node: number;
  phase: Phase;
  /** The place in the program that it names, where that is known: the line of a `detach()`, not that of its consumer. */
  span?: number;
  /** One or two sentences: what and why. May hold `code`. */
  text: string;
  /** What to write instead; "" where there is nothing to say. */
  fix: string;
  /** Bytes concerned, share of units, ...: shown beside the title. */
  evidence: { [key: string]: Num | string | number[] };
  /** The step's own numbers: operands, slopes, what left. */
  table?: { columns: string[]; rows: (string | Num)[][] };
  /** "g · 1/(2√s)" and "0 × ∞ = NaN". */
  formula?: { tex: string; numbers: string };
  /** Forward values and parameter gradients that it reached. */
  spread?: { values: number; valuesOf: number; gradients: number; gradientsOf: number };
}

/** What the compiler made of the same computation. */
export interface Kernels {
  target: string;
  /** Rows of `list` in the order in which the plan runs them. */
  plan: { kernel: number[]; text: string[]; micros: (number | null)[] };
  list: KernelInfo[];
  /** LLVM IR by `KernelInfo.code`, where it is not too long in all. */
  sources: { [code: string]: string };
}

export interface KernelInfo {
  name: string;
  kind: string; // "loop", "gemm", "attention", "host call", ...
  phase: Phase;
  /** Nodes of this trace whose values it computes, and nodes whose derivatives it computes. */
  nodes: number[];
  gradients: number[];
  micros: number | null;
  bytes: number;
  flops: number;
  /** The function that runs, a key of `sources`: several entries may share one, each on other nodes. "" for Python. */
  code: string;
  /** Kernels that read what this one makes, and why each is another kernel; absent where there are none. */
  apart?: { kernel: number; why: string }[];
}

/**
 * A run by the scheduler or the native runtime: who did what, when. Times in microseconds. A row is a node (scheduler)
 * or a range of a step's units that a worker ran at a stretch (native).
 */
export interface Parallel {
  origin: "scheduler" | "native";
  workers: number;
  node: number[]; // -1 for a kernel of `kernels.list` (native)
  kernel?: number[];
  /** 1 where a row computes something of the node's gradient, not its value (scheduler). */
  gradient?: number[];
  /** What a row takes where nobody else works: the least of several runs by one worker (scheduler). */
  alone?: number[];
  worker: number[];
  /** When all operands were there, when it began to run, when it ended, when its consumers knew. */
  ready: number[];
  start: number[];
  end: number[];
  done: number[];
}

/**
 * What ranks do in a step: a lane for those that do the same at the same time. Times in microseconds. A part computes
 * (0), moves (1) or waits (2); what moves does so while others compute.
 */
export interface Ranks {
  mesh: string;
  micros: number;
  lanes: { ranks: string; memory: number }[];
  lane: number[];
  kind: number[];
  label: string[];
  start: number[];
  end: number[];
  moved: number[];
  /** The nodes that a part computes or moves. */
  nodes: number[][];
}

/**
 * What ran together in blocks of batching: kernels in their order, a run after the other. A kernel has `calls` of one
 * cell, and was made for so many `rows`.
 */
export interface Batched {
  /** By which way the kernels of each run were found. */
  ways: string[];
  run: number[]; // ways
  cell: number[]; // cells
  cells: string[];
  calls: number[];
  rows: number[];
  /** Inputs whose rows were gathered, and those whose rows lay side by side. */
  gathered: number[];
  sliced: number[];
  /** Calls that were not batched: how many, why, from how many places, and the first of these. */
  left: { name: string; why: string; calls: number; places: number; spans: number[] }[];
}

/**
 * Paths from nodes to the result, where tensors are on the way. A path's contribution is the result's gradient pulled
 * back along this path alone: of the shape of the node's gradient, which is the sum over all paths.
 */
export interface TensorPaths {
  /** So many paths of a node are told apart at most; where it has more, those that were among its largest all the way. */
  most: number;
  nodes: NodePaths;
  list: PathList;
}

/** The nodes that have a gradient; a node's paths are entries of `list`, from `first` on, the largest first. */
export interface NodePaths {
  row: number[]; // nodes
  /** All its paths; may be more than a whole number can count. */
  count: number[];
  first: number[]; // list
  /** Entries that are paths. Where there are more paths the next entry is all others together. */
  shown: number[];
  /** Whether the sum over all paths is the recorded gradient as exactly as its dtype can tell; the largest difference. */
  equal: boolean[];
  difference: Num[];
}

/** Paths: an edge, and the path by which it goes on. */
export interface PathList {
  edge: number[]; // edges; -1: all other paths of the node together
  next: number[]; // list; -1: the edge ends at the result
  /** Root mean square of the contribution's elements; null where the node has no one gradient. */
  rms: (Num | null)[];
  /** Part of the gradient along the gradient's own direction: those of all paths add up to 1. Null of a gradient of zeros. */
  share: (number | null)[];
  /** 1 where a selection (an index, a maximum) lets nothing through this way. */
  absent: number[];
  /** The contribution, row-major, where it has at most 64 real elements. */
  values: (Num[] | null)[];
}

/**
 * A value that the program took out of the graph, to decide by it (`if x > 0`) or to go on with it as a number: with other
 * values it might have gone another way, and recorded another graph.
 */
export interface ValueRead {
  /** How: "__bool__", "item", "numpy", ... */
  what: string;
  /** "": the value of `nodes[0]`; a name: this operation on `nodes` (-1: a literal); "?": something made of `nodes`. */
  op: string;
  nodes: number[];
  literals: { [slot: string]: Num };
  /** The number that it was; null of an array. */
  value: Num | null;
  span: number;
}

export interface MemoryFacts {
  resident: number;
  peak: number;
  /** Event at which the peak is. */
  peakAt: number;
  saved: number;
  /** What the optimisers keep from step to step, beside all buffers; absent where that is nothing. */
  optimizer?: number;
}

export interface CheckpointWhatIf {
  /** The regions that would be computed again (rows of `scopes`). */
  scopes: number[];
  peak: number;
  /** Held after each event of `events` of the run as it is, if checkpoints were set; a ghost line. */
  line: number[];
  extraFlops: number; // share, 0.22
}

export interface TraceDiff {
  other: Trace;
  /** Nodes of both runs that stand for each other, with how far value and gradient are apart, as a part of the first's size. */
  pairs?: { a: number[]; b: number[]; value: (Num | null)[]; gradient: (Num | null)[] };
  edits: { kind: "added" | "removed" | "changed"; a: number; b: number; text: string }[];
}
