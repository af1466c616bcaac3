/** A recorded graph of single numbers, run again here: forward over every node, and backward from the loss. */
import { num, optionalNum } from "../trace/decode";
import { dtypeOf, edgesAt, kindOf, opOf, recordedGradient, recordedValue, shapeOf, text, type Model } from "../trace/model";
import { FLAG } from "../trace/types";
import { formulaOp } from "./formula";
import { scalarOp, type Attributes, type ScalarOp } from "./ops";

/** How to compute one node: its operation, where its arguments come from, and how its results are stored. */
interface Step {
  readonly node: number;
  readonly op: ScalarOp;
  readonly attrs: Attributes;
  /** By slot: an edge's row, or -1 for a literal in `literals`. */
  readonly edges: readonly number[];
  readonly literals: readonly number[];
  readonly store: (value: number) => number;
}

export interface Program {
  readonly model: Model;
  readonly root: number;
  readonly seed: number;
  readonly steps: readonly Step[];
}

/** Why a graph cannot be run here: in words for the reader. */
export interface Refusal {
  readonly reason: string;
}

export interface Run {
  /** By node; null where it is unknown. */
  readonly values: readonly (number | null)[];
  /** By node; null where no gradient came by. */
  readonly gradients: readonly (number | null)[];
  /** By edge; null where it is unknown. */
  readonly slopes: readonly (number | null)[];
}

const ROUNDINGS: { readonly [dtype: string]: (value: number) => number } = {
  float64: (value) => value,
  float32: Math.fround,
  bool: (value) => Number(value !== 0),
};

function roundingOf(dtype: string): ((value: number) => number) | null {
  return ROUNDINGS[dtype] ?? (/^u?int\d+$/.test(dtype) ? Math.trunc : null);
}

function isSingle(model: Model, node: number): boolean {
  return shapeOf(model, node).every((n) => n === 1);
}

/** The nodes that the root is made of, in the order in which they came to be. */
function ancestors(model: Model, root: number): number[] {
  const seen = new Set([root]);
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    for (const edge of edgesAt(model.operands, node)) {
      const source = model.src[edge] as number;
      if (!seen.has(source)) {
        seen.add(source);
        waiting.push(source);
      }
    }
  }
  return [...seen].sort((a, b) => a - b);
}

/** What running the graph again takes, up to the loss or another node, or why that cannot be done. */
export function programOf(model: Model, root = model.trace.meta.roots[0]): Program | Refusal {
  if (root === undefined) return { reason: "The run has no result." };
  const steps: Step[] = [];
  const kinds: Kinds = new Map();
  for (const node of ancestors(model, root)) {
    if (!isSingle(model, node)) return { reason: "The graph holds tensors: this page only knows single numbers." };
    if (edgesAt(model.operands, node).length === 0) {
      if (recordedValue(model, node) === null) return { reason: "Values were not recorded." };
      continue;
    }
    const step = stepOf(model, node, kinds);
    if ("reason" in step) return step;
    steps.push(step);
  }
  const isEnd = root === model.trace.meta.roots[0] && edgesAt(model.consumers, root).length === 0;
  return { model, root, seed: isEnd ? (recordedGradient(model, root) ?? 1) : 1, steps };
}

/** What steps of the same operation and dtype have in common. */
type Kind = Omit<Step, "node" | "edges">;
type Kinds = Map<number, Kind | Refusal>;

function stepOf(model: Model, node: number, kinds: Kinds): Step | Refusal {
  const { nodes } = model.trace;
  const key = (nodes.op[node] as number) * model.trace.strings.length + (nodes.dtype[node] as number);
  let kind = kinds.get(key);
  if (kind === undefined) kinds.set(key, (kind = kindOfStep(model, node)));
  if ("reason" in kind) return kind;
  const edges: number[] = [];
  let filled = 0;
  kind.literals.forEach((_, slot) => {
    edges[slot] = -1;
    filled++;
  });
  const { start, edge } = model.operands;
  for (let i = start[node] as number; i < (start[node + 1] as number); i++, filled++) edges[model.slot[edge[i] as number] as number] = edge[i] as number;
  if (filled < edges.length) return { reason: `An operand of ${opOf(model, node)} was not recorded.` };
  return { node, edges, ...kind };
}

function kindOfStep(model: Model, node: number): Kind | Refusal {
  const { ops, nodes } = model.trace;
  const row = nodes.op[node] as number;
  // A result without an operation is another name for its operand.
  const name = row < 0 ? "alias" : (ops.name[row] as string);
  const formula = row < 0 ? null : (ops.formula?.[row] ?? null);
  const op = formula === null ? scalarOp(name) : formulaOp(formula);
  if (op === null) return { reason: `This page does not know how to compute ${name}.` };
  const store = roundingOf(dtypeOf(model, node));
  if (store === null) return { reason: `This page does not compute in ${dtypeOf(model, node)}.` };
  const literals: number[] = [];
  for (const [slot, value] of Object.entries((row < 0 ? undefined : ops.literals?.[row]) ?? {})) {
    literals[Number(slot)] = num(value);
  }
  return { op, attrs: (row < 0 ? undefined : ops.attrs?.[row]) ?? {}, literals, store };
}

/**
 * Runs forward with the given leaves, then backward, each result rounded to the dtype in which the engine keeps it;
 * `exact` leaves the rounding out.
 */
export function run(program: Program, moved: ReadonlyMap<number, number>, exact = false): Run {
  const { model, steps } = program;
  const values = forward(program, moved, exact);
  const slopes = Array.from({ length: model.edges }, (_, e) => optionalNum(model.trace.edges.slope?.[e]));
  const inDtype = (store: ((value: number) => number) | null, value: number) =>
    exact || store === null ? value : store(value);
  const gradients: (number | null)[] = new Array<number | null>(model.nodes).fill(null);
  gradients[program.root] = program.seed;
  for (let k = steps.length - 1; k >= 0; k--) {
    const step = steps[k] as Step;
    const partials = step.op.partials(argumentsOf(step, values, model), values[step.node] ?? Number.NaN, step.attrs);
    const arrived = gradients[step.node] ?? null;
    step.edges.forEach((edge, slot) => {
      if (edge < 0) return;
      // Where nothing flows nothing is added, not even 0 times an infinity; it is shown as the 0 that it comes to.
      const slope = partials[slot] ?? null;
      slopes[edge] = slope === null ? 0 : inDtype(step.store, slope);
      const source = model.src[edge] as number;
      const tracked = ((model.trace.nodes.flags[source] as number) & FLAG.tracked) !== 0;
      if (arrived === null || !tracked) return;
      const part = slope === null ? 0 : arrived * slope;
      gradients[source] = inDtype(roundingOf(dtypeOf(model, source)), (gradients[source] ?? 0) + part);
    });
  }
  return { values, gradients, slopes };
}

/** Values of all nodes; those that the root does not depend on keep what was recorded. */
function forward(program: Program, moved: ReadonlyMap<number, number>, exact: boolean): (number | null)[] {
  const { model, steps } = program;
  const values = Array.from({ length: model.nodes }, (_, node) => moved.get(node) ?? startOf(model, node));
  for (const step of steps) {
    if (moved.has(step.node)) continue;
    const value = step.op.value(argumentsOf(step, values, model), step.attrs);
    values[step.node] = exact ? value : step.store(value);
  }
  return values;
}

/** What was recorded; numbers of fewer bits are written with no more digits than tell them apart. */
function startOf(model: Model, node: number): number | null {
  const value = recordedValue(model, node);
  return value === null ? null : (roundingOf(dtypeOf(model, node))?.(value) ?? value);
}

function argumentsOf(step: Step, values: readonly (number | null)[], model: Model): number[] {
  return step.edges.map((edge, slot) =>
    edge < 0 ? (step.literals[slot] ?? Number.NaN) : (values[model.src[edge] as number] ?? Number.NaN),
  );
}

/** The value of a program's end where leaves are moved. */
export function endOf(program: Program, moved: ReadonlyMap<number, number>): number | null {
  return forward(program, moved, false)[program.root] ?? null;
}

/** The loss as a function of one node, everything after it run again, unrounded. */
export function lossAlong(program: Program, node: number, others: ReadonlyMap<number, number>): (at: number) => number {
  return (at) => forward(program, new Map([...others, [node, at]]), true)[program.root] ?? Number.NaN;
}

/** A difference quotient, and how wrong rounding alone can make it. */
export interface Quotient {
  readonly value: number;
  readonly error: number;
}

/**
 * The nudge test: (L(x + h) - L(x - h)) / 2h. The step balances the error of the difference quotient, which falls with
 * h², against that of rounding, which grows with 1 / h.
 */
export function nudge(program: Program, node: number, at: number, others: ReadonlyMap<number, number>): Quotient {
  const loss = lossAlong(program, node, others);
  const wanted = Math.cbrt(Number.EPSILON) * Math.max(1, Math.abs(at));
  // What is added is exactly what is divided by.
  const above = at + wanted;
  const below = at - wanted;
  const [high, low] = [loss(above), loss(below)];
  const error = (Number.EPSILON * (Math.abs(high) + Math.abs(low))) / (above - below);
  return { value: (high - low) / (above - below), error };
}

/** Leaves whose numbers a reader may change. */
export function canMove(model: Model, node: number): boolean {
  const kind = kindOf(model, node);
  return (
    (kind === "input" || kind === "param" || kind === "const") &&
    isSingle(model, node) &&
    /^float(32|64)$/.test(text(model, model.trace.nodes.dtype[node])) &&
    recordedValue(model, node) !== null
  );
}
