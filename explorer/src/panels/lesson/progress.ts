/** What has happened at a place of the clock: which values are there, which gradients have gone along which edges. */
import { edgesAt, recordedGradient, type Model } from "../../trace/model";
import type { Numbers } from "../../state";

/** Whether the value of a node is there: leaves are from the beginning, second names with what they name. */
export function hasValue(model: Model, node: number, cursor: number): boolean {
  const at = model.forwardAt[node] as number;
  if (at >= 0) return at < cursor;
  return Array.from(edgesAt(model.operands, node)).every((edge) => hasValue(model, model.src[edge] as number, cursor));
}

/** Whether the backward pass has begun: the root has its gradient, by definition. */
export function hasTurned(model: Model, cursor: number): boolean {
  return cursor > model.turn;
}

/** Whether an edge has a gradient to carry at all. */
export function carries(model: Model, edge: number): boolean {
  return model.edgeGradientCode === null || model.edgeGradientCode[edge] !== 0;
}

/** Whether the gradient along an edge has been handed on. */
export function hasHanded(model: Model, edge: number, cursor: number): boolean {
  if (!carries(model, edge)) return false;
  const consumer = model.dst[edge] as number;
  const at = model.backwardAt[consumer] as number;
  if (at >= 0) return at < cursor;
  // A second name has no event of its own: its gradient is at once that of what it names.
  return (model.trace.nodes.op[consumer] as number) < 0 && hasGradient(model, consumer, cursor);
}

/** Whether all that will ever arrive at a node has arrived. */
export function hasGradient(model: Model, node: number, cursor: number): boolean {
  if (model.gradientCode[node] === 0 && recordedGradient(model, node) === null) return false;
  if (model.trace.meta.roots[0] === node && !hasTurned(model, cursor)) return false;
  return Array.from(edgesAt(model.consumers, node))
    .filter((edge) => carries(model, edge))
    .every((edge) => hasHanded(model, edge, cursor));
}

/** What flows back along an edge; null where nothing does, or the ends are no single numbers. */
export function edgeGradient(model: Model, numbers: Numbers, edge: number): number | null {
  const arrived = numbers.gradient(model.dst[edge] as number);
  const slope = numbers.slope(edge);
  return arrived === null || slope === null || !carries(model, edge) ? null : arrived * slope;
}

/** The parts of a node's gradient that have arrived so far, in the order of arrival. */
export function arrivals(model: Model, numbers: Numbers, node: number, cursor: number): number[] {
  return Array.from(edgesAt(model.consumers, node))
    .filter((edge) => hasHanded(model, edge, cursor))
    .sort((a, b) => when(model, a) - when(model, b))
    .map((edge) => edgeGradient(model, numbers, edge))
    .filter((part) => part !== null);
}

function when(model: Model, edge: number): number {
  return model.backwardAt[model.dst[edge] as number] as number;
}
