/** Findings first, then the modules. */
import { useEffect } from "preact/hooks";
import { useStore } from "../../state";
import { showFinding } from "./actions";
import { Findings } from "./findings";
import { Modules } from "./modules";

export function SurveyLeft() {
  const store = useStore();
  useEffect(() => {
    // A page that nobody has pointed anywhere begins at the first error.
    const untouched = store.selection.peek() === null && store.finding.peek() < 0 && store.cursor.peek() === store.model.peek().events;
    const error = store.model.peek().trace.findings.findIndex((f) => f.severity === "error");
    if (untouched && error >= 0) showFinding(store, error);
  }, []);
  return (
    <aside class="wg-left wg-survey-left" aria-label="Overview">
      <Findings />
      <Modules />
    </aside>
  );
}
