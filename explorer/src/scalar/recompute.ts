/** What the numbers of a small scalar graph become where leaves have been moved: the graph is run again, here. */
import type { Numbers } from "../state";
import { num, optionalNum } from "../trace/decode";
import { recordedValue, type Model } from "../trace/model";
import type { ValueRead } from "../trace/types";
import { scalarOp } from "./ops";
import { endOf, programOf, run, type Program, type Refusal } from "./run";

const programs = new WeakMap<Model, Program | Refusal>();

/** The program of a graph, made once. */
export function programFor(model: Model): Program | Refusal {
  const known = programs.get(model);
  if (known !== undefined) return known;
  const made = programOf(model);
  programs.set(model, made);
  return made;
}

const slopes = new WeakMap<Model, readonly (number | null)[]>();

/**
 * A local derivative: of the recording, or computed here where the document leaves them out, as large ones do; null where
 * neither knows it.
 */
export function slopeOf(model: Model, numbers: Numbers, edge: number): number | null {
  if (model.trace.edges.slope !== undefined) return numbers.slope(edge);
  let known = slopes.get(model);
  if (known === undefined) {
    const program = programFor(model);
    known = "reason" in program ? [] : run(program, new Map()).slopes;
    slopes.set(model, known);
  }
  return known[edge] ?? null;
}

/** Null where this page cannot run the graph; `programFor` says why. */
export function recompute(model: Model, moved: ReadonlyMap<number, number>): Numbers | null {
  const program = programFor(model);
  if ("reason" in program) return null;
  const again = run(program, moved);
  return {
    value: (node) => again.values[node] ?? null,
    gradient: (node) => again.gradients[node] ?? null,
    slope: (edge) => again.slopes[edge] ?? null,
  };
}

/**
 * What the program took out of the graph as a number and would now find another one: by a truth value it may go another
 * way, and what it makes of a number is not in the graph. Where there is none of that, the numbers are those of the program.
 */
export function otherwise(model: Model, moved: ReadonlyMap<number, number>): ValueRead[] {
  if (moved.size === 0) return [];
  return (model.trace.reads ?? []).filter((read) => {
    const now = read.nodes.map((node, slot) => (node < 0 ? num(read.literals[String(slot)] ?? "nan") : valueNow(model, node, moved)));
    if (read.nodes.every((node, slot) => node < 0 || Object.is(now[slot], recordedValue(model, node)))) return false;
    const was = optionalNum(read.value);
    const op = read.op === "" ? null : scalarOp(read.op);
    if (was === null || now.includes(null) || (read.op !== "" && op === null)) return true;
    const value = op === null ? (now[0] as number) : op.value(now as number[], {});
    return read.what === "__bool__" ? (value !== 0) !== (was !== 0) : !Object.is(value, was);
  });
}

const ways = new WeakMap<Model, Map<number, Program | Refusal>>();

/** The value of a node, whether or not the result hangs on it; null where this page cannot compute it. */
function valueNow(model: Model, node: number, moved: ReadonlyMap<number, number>): number | null {
  let known = ways.get(model);
  if (known === undefined) ways.set(model, (known = new Map()));
  let way = known.get(node);
  if (way === undefined) known.set(node, (way = programOf(model, node)));
  return "reason" in way ? null : endOf(way, moved);
}
