/** What is chosen: a finding, a module, a node; the whole run where nothing is. */
import { useStore } from "../../state";
import { findingAt } from "./actions";
import { FindingPanel } from "./finding_panel";
import { NodePanel } from "./node_panel";
import { ScopePanel } from "./scope_panel";

export function SurveyRight() {
  const store = useStore();
  const selected = store.selection.value;
  const model = store.model.value;
  const finding = model.trace.findings[findingAt(store)];
  let panel;
  if (finding !== undefined) panel = <FindingPanel finding={finding} />;
  else if (selected === null) panel = <ScopePanel scope={0} />;
  else if (selected.kind === "scope") panel = <ScopePanel scope={selected.row} />;
  else panel = <NodePanel node={selected.kind === "node" ? selected.row : (model.dst[selected.row] as number)} />;
  return (
    <aside class="wg-right wg-survey-right" aria-label="Selection">
      {panel}
    </aside>
  );
}
