/** Name, what is shown, tabs, find, theme. */
import { shownPlural } from "../format";
import { isWeights, onlyTab, text } from "../trace/model";
import { From, play } from "../parts";
import type { Signal } from "@preact/signals";
import { find, TABS, useStore, type Store, type Tab, type Theme } from "../state";

const LABELS: Record<Tab, string> = {
  graph: "Graph",
  tape: "Tape",
  paths: "Paths",
  memory: "Memory",
  parallel: "Parallel",
  kernels: "Kernels",
  ranks: "Ranks",
  weights: "Weights",
  diff: "Diff",
  play: "Play",
};

/** Tabs that the document has something for. */
export function tabsOf(store: Store): Tab[] {
  const { trace } = store.model.value;
  if (store.host.kind === "local") return ["play"];
  const only = onlyTab(store.model.value);
  if (only !== null) return [only];
  return TABS.filter((tab) => {
    if (tab === "weights") return trace.meta.stored === true;
    if (tab === "diff" || tab === "ranks") return trace[tab] !== undefined;
    if (tab === "play") return store.host.kind === "server" && store.host.send !== undefined;
    return true;
  });
}

export function Header() {
  const store = useStore();
  return (
    <header class="wg-header">
      <div class="wg-brand">
        <Mark />
        <b>wengert</b>
      </div>
      <Title />
      <div class="wg-tabs" role="tablist" aria-label="Views">
        {tabsOf(store).map((tab, i) => (
          <button
            key={tab}
            id={`wg-tab-${tab}`}
            role="tab"
            type="button"
            aria-selected={store.tab.value === tab}
            aria-controls="wg-view"
            title={`${LABELS[tab]} (${i + 1})`}
            onClick={() => {
              store.tab.value = tab;
            }}
          >
            {LABELS[tab]}
          </button>
        ))}
      </div>
      {store.host.kind !== "local" && (
        <button class="wg-quiet" type="button" title="Find (/ or ⌘K)" onClick={() => find(store)}>
          <kbd>⌘K</kbd> Find
        </button>
      )}
      {store.tab.value === "graph" && (
        <button class="wg-quiet wg-icon" type="button" aria-label="Save the picture" title="Save the picture (S)" onClick={() => (store.saving.value = true)}>
          <svg width="18" height="18" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" aria-hidden="true">
            <path d="M12 3v12M7 10l5 5 5-5M4 20h16" />
          </svg>
        </button>
      )}
      <ThemeButton />
    </header>
  );
}

/** What is looked at: a recording, or in the playground what runs behind the page. */
function Title() {
  const store = useStore();
  if (store.tab.value === "play") return <From part={play}>{({ PlayTitle }) => <PlayTitle />}</From>;
  const { trace, nodes } = store.model.value;
  const { script, title, step } = trace.meta;
  const operations = trace.nodes.op.reduce((n, op) => n + (op >= 0 ? 1 : 0), 0);
  const { batching } = trace;
  const told = batching !== undefined ? shownPlural(batching.run.length, "kernel") : isWeights(store.model.value) ? shownPlural(nodes, "tensor") : `${shownPlural(nodes, "node")}, ${shownPlural(operations, "operation")}`;
  const { shelf } = store.host;
  return (
    <div class="wg-title" title={text(store.model.value, trace.scopes.name[0])}>
      {shelf !== undefined && (
        <select class="wg-shelf" aria-label="Lesson" value={shelf.at} onChange={(event) => shelf.open(Number(event.currentTarget.value), store.tab.value)}>
          {shelf.names.map((name, i) => (
            <option key={name} value={i}>
              {i + 1} {name}
            </option>
          ))}
        </select>
      )}
      {script !== "" && (
        <>
          <span>{script}</span>
          <span aria-hidden="true"> / </span>
        </>
      )}
      <b>{title}</b>
      {step !== undefined && <span> · step {step}</span>}
      <span class="wg-muted">
        {" "}
        · {told}
      </span>
    </div>
  );
}

function ThemeButton() {
  return <ThemeToggle theme={useStore().theme} />;
}

export function ThemeToggle({ theme }: { theme: Signal<Theme> }) {
  const dark = theme.value === "dark";
  return (
    <button
      class="wg-quiet wg-icon"
      type="button"
      aria-label={dark ? "Light colours" : "Dark colours"}
      title={dark ? "Light colours" : "Dark colours"}
      onClick={() => (theme.value = dark ? "light" : "dark")}
    >
      <svg width="18" height="18" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" aria-hidden="true">
        {dark ? (
          <>
            <circle cx="12" cy="12" r="4.2" />
            <path d="M12 2v3M12 19v3M2 12h3M19 12h3M4.9 4.9l2.1 2.1M17 17l2.1 2.1M4.9 19.1L7 17M17 7l2.1-2.1" />
          </>
        ) : (
          <path d="M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z" />
        )}
      </svg>
    </button>
  );
}

export function Mark() {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true">
      <path d="M5 5L12 12L5 19M12 12H20" fill="none" stroke="var(--wg-ink)" stroke-width="2" />
      <circle cx="5" cy="5" r="3" fill="var(--wg-input)" />
      <circle cx="5" cy="19" r="3" fill="var(--wg-param)" />
      <circle cx="12" cy="12" r="3" fill="var(--wg-op)" />
      <circle cx="20" cy="12" r="3" fill="var(--wg-ink)" />
    </svg>
  );
}
