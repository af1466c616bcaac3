/** Which checkpoints are tried: one choice for the Memory tab and for the ghost line in the clock. */
import { signal, type Signal } from "@preact/signals";
import type { Model } from "../../trace/model";
import { bestWhatIf, cuts, whatIf, type Cut } from "./checkpoint";

export interface Foreseen {
  label: string;
  peak: number;
  line: ArrayLike<number>;
  extra: number;
  /** Of what `extra` is a share. */
  of: "time" | "work";
}

const chosen = new WeakMap<Model, Signal<Foreseen | null>>();

export function foreseenOf(model: Model): Signal<Foreseen | null> {
  let found = chosen.get(model);
  if (found === undefined) {
    found = signal<Foreseen | null>(null);
    chosen.set(model, found);
  }
  return found;
}

/** What the document foresees, else the best cut; worked out when there is time. */
export function foreseeLater(model: Model): () => void {
  const to = foreseenOf(model);
  const timer = setTimeout(() => {
    if (to.value !== null) return;
    const given = model.trace.checkpoint;
    const best = given === undefined ? bestWhatIf(model) : null;
    if (given !== undefined) to.value = { label: "as recorded", peak: given.peak, line: given.line, extra: given.extraFlops, of: "work" };
    else if (best !== null) to.value = { label: best.cut.label, peak: best.result.peak, line: best.result.line, extra: best.result.extra, of: "time" };
  }, 60);
  return () => clearTimeout(timer);
}

/** Every cut that can be chosen, with what it would come to. */
export function choices(model: Model): Foreseen[] {
  return cuts(model).map((cut: Cut) => {
    const { peak, line, extra } = whatIf(model, cut.regions);
    return { label: cut.label, peak, line, extra, of: "time" };
  });
}
