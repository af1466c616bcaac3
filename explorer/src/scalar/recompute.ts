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
