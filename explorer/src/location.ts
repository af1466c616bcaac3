/**
 * Time, selection, tab and open modules live in the page's URL hash, so that a link shows what its sender saw. A page
 * with the explorer in a frame can also say `theme=dark` there, to have it in its own colours.
 */
import { effect } from "@preact/signals";
import { onlyTab } from "./trace/model";
import { MOST_WORKERS, TABS, WORKERS_FIRST, type Selection, type Store, type Tab } from "./state";

export function readHash(store: Store, hash: string): void {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const { model } = store;
  const tab = given.get("tab");
  if (tab !== null && (TABS as readonly string[]).includes(tab) && onlyTab(model.value) === null) store.tab.value = tab as Tab;
  const theme = given.get("theme");
  if (theme === "light" || theme === "dark") store.theme.value = theme;
  const at = whole(given.get("t"), model.value.events + 1);
  if (at !== null) store.cursor.value = at;
  const workers = whole(given.get("workers"), MOST_WORKERS + 1);
  if (workers !== null) store.workers.value = workers;
  const selected = selectionOf(given.get("sel") ?? "", store);
  if (selected !== null) store.selection.value = selected;
  const open = given.get("open");
  if (open !== null) {
    const scopes = model.value.trace.scopes.parent.length;
    store.open.value = new Set(
      open
        .split(".")
        .map((row) => whole(row, scopes))
        .filter((row): row is number => row !== null),
    );
  }
}

export function writeHash(store: Store): string {
  const out = new URLSearchParams();
  if (store.tab.value !== "graph") out.set("tab", store.tab.value);
  if (store.workers.value !== WORKERS_FIRST) out.set("workers", String(store.workers.value));
  if (store.cursor.value !== store.model.value.events) out.set("t", String(store.cursor.value));
  const selected = store.selection.value;
  if (selected !== null) out.set("sel", selected.kind.slice(0, 1) + String(selected.row));
  if (store.open.value.size > 0) out.set("open", [...store.open.value].sort((a, b) => a - b).join("."));
  const further = store.further.value();
  return [out.toString(), further].filter((part) => part !== "").join("&");
}

function selectionOf(code: string, store: Store): Selection {
  const kinds = { n: "node", s: "scope", e: "edge" } as const;
  const kind = kinds[code.slice(0, 1) as keyof typeof kinds];
  if (kind === undefined) return null;
  const { nodes, edges, trace } = store.model.value;
  const row = whole(code.slice(1), { node: nodes, scope: trace.scopes.parent.length, edge: edges }[kind]);
  return row === null ? null : { kind, row };
}

function whole(given: string | null, below: number): number | null {
  if (given === null || !/^\d{1,9}$/.test(given)) return null;
  const value = Number(given);
  return value < below ? value : null;
}

export function followLocation(store: Store): () => void {
  readHash(store, location.hash);
  let timer = 0;
  const listen = () => readHash(store, location.hash);
  addEventListener("hashchange", listen);
  const stop = effect(() => {
    const hash = writeHash(store);
    clearTimeout(timer);
    // Browsers refuse many changes in a short time.
    timer = window.setTimeout(() => {
      history.replaceState(null, "", hash === "" ? location.pathname + location.search : `#${hash}`);
    }, 250);
  });
  return () => {
    stop();
    clearTimeout(timer);
    removeEventListener("hashchange", listen);
  };
}
