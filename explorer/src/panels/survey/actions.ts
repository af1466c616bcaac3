/** Going to a finding: the clock, the selection and the open modules move together. */
import type { Finding } from "../../trace/types";
import type { Model } from "../../trace/model";
import { reveal, seek, type Store } from "../../state";

/** How many events have happened once the finding's own has; null where it is about no event. */
export function momentOf(model: Model, finding: Finding): number | null {
  if (finding.node < 0) return null;
  const at = (finding.phase === "backward" ? model.backwardAt : model.forwardAt)[finding.node] ?? -1;
  return at < 0 ? null : at + 1;
}

export function showFinding(store: Store, row: number): void {
  const model = store.model.value;
  const finding = model.trace.findings[row];
  if (finding === undefined) return;
  store.finding.value = row;
  const moment = momentOf(model, finding);
  if (moment !== null) {
    store.playing.value = false;
    seek(store, moment);
  }
  if (finding.node >= 0) reveal(store, { kind: "node", row: finding.node });
}

/** The finding whose node is selected, the chosen one first; -1 where none is. */
export function findingAt(store: Store): number {
  const selected = store.selection.value;
  const { findings } = store.model.value.trace;
  const chosen = findings[store.finding.value];
  if (selected === null || selected.kind !== "node") return chosen !== undefined && chosen.node < 0 && selected === null ? store.finding.value : -1;
  if (chosen?.node === selected.row) return store.finding.value;
  return findings.findIndex((f) => f.node === selected.row && f.severity === "error");
}
