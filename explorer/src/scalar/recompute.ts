/** What the numbers of a small scalar graph become where leaves have been moved: the graph is run again, here. */
import type { Numbers } from "../state";
import type { Model } from "../trace/model";
import { programOf, run, type Program, type Refusal } from "./run";

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
