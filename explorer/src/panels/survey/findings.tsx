/** What is wrong, or wasteful, in this run: the first thing to read. */
import { useStore } from "../../state";
import type { Finding } from "../../trace/types";
import { showFinding } from "./actions";

const PATHS: Record<string, string> = {
  error: "M12 4 L21 20 H3 Z M12 10 V14.5 M12 17.2 V17.4",
  unit: "M3 18 H12 L20 7 M4 21.5 H7 M11 21.5 H14 M18 21.5 H20",
  bars: "M4 5 V19 M9 9 V19 M14 12 V19 M19 15 V19",
  fade: "M3 6 C9 6 10 18 21 18",
  loose: "M4 12 H9 M15 12 H20 M9 8 V16 M15 8 V16",
  note: "M12 3 A9 9 0 1 0 12 21 A9 9 0 1 0 12 3 M12 11 V16.5 M12 7.6 V7.8",
};

const SHAPE_OF_RULE: [RegExp, string][] = [
  [/relu|dead/, "unit"],
  [/saved|memory/, "bars"],
  [/vanish|explod/, "fade"],
  [/missing|unused/, "loose"],
];

function FindingIcon({ finding }: { finding: Finding }) {
  const shape = SHAPE_OF_RULE.find(([rule]) => rule.test(finding.rule))?.[1] ?? (finding.severity === "error" ? "error" : "note");
  return (
    <svg class={`wg-finding-icon wg-${finding.severity}`} width="20" height="20" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[shape] as string} fill="none" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

export function Findings() {
  const store = useStore();
  const { findings } = store.model.value.trace;
  const firstNaN = findings.findIndex((f) => f.rule.startsWith("nan"));
  return (
    <section class="wg-section wg-findings" aria-label="Findings">
      <h2>
        Findings <small class="wg-mono">{findings.length}</small>
      </h2>
      {findings.length === 0 ? (
        <p class="wg-none">{store.model.value.events > 0 || store.model.value.trace.meta.stored === true ? "Nothing was found." : "There was no run to look at."}</p>
      ) : (
        <ul>
          {findings.map((finding, i) => (
            <li key={i}>
              <button
                type="button"
                class={`wg-finding wg-${finding.severity}`}
                aria-pressed={store.finding.value === i}
                onClick={() => showFinding(store, i)}
              >
                <FindingIcon finding={finding} />
                <b>{finding.title}</b>
                {i === firstNaN && <kbd title="Key: to the first NaN">N</kbd>}
                <small>{finding.where}</small>
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
