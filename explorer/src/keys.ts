/** The keyboard: every action that the pointer has. The table is what the help panel shows. */
import { consumersOf, operandsOf } from "./trace/model";
import { FLAG } from "./trace/types";
import { find, nextFound, seek, select, step, togglePlay, toggleScope, type Store } from "./state";
import { later } from "./parts";
import { tabsOf } from "./panels/header";
import { showFinding } from "./panels/survey/actions";

export interface Key {
  readonly keys: readonly string[];
  readonly shown: string;
  readonly does: string;
  readonly run: (store: Store, event: KeyboardEvent) => void;
}

export const KEYS: readonly Key[] = [
  { keys: [" "], shown: "space", does: "play and pause", run: togglePlay },
  { keys: ["ArrowRight"], shown: "→", does: "one step on", run: (s) => step(s, 1) },
  { keys: ["ArrowLeft"], shown: "←", does: "one step back", run: (s) => step(s, -1) },
  { keys: ["]"], shown: "]", does: "to the next module", run: (s) => seekModule(s, 1) },
  { keys: ["["], shown: "[", does: "to the module before", run: (s) => seekModule(s, -1) },
  { keys: ["Home"], shown: "Home", does: "to the start", run: (s) => seek(s, 0) },
  { keys: ["t", "T"], shown: "T", does: "to the start of the backward pass", run: (s) => seek(s, s.model.value.turn) },
  { keys: ["End"], shown: "End", does: "to the end", run: (s) => seek(s, s.model.value.events) },
  { keys: ["ArrowUp"], shown: "↑", does: "along an edge to an operand", run: (s) => walk(s, true) },
  { keys: ["ArrowDown"], shown: "↓", does: "along an edge to a consumer", run: (s) => walk(s, false) },
  { keys: ["Enter"], shown: "Enter", does: "open the selected module", run: (s) => openSelected(s, true) },
  { keys: ["Backspace"], shown: "Backspace", does: "close it", run: (s) => openSelected(s, false) },
  { keys: ["n", "N"], shown: "N", does: "to the first NaN", run: seekNaN },
  { keys: ["p", "P"], shown: "P", does: "to the peak of memory", run: (s) => seek(s, (s.model.value.trace.memory?.peakAt ?? s.model.value.turn - 1) + 1) },
  { keys: ["/"], shown: "/ or ⌘K", does: "find", run: find },
  { keys: ["f"], shown: "F", does: "to the next of what was found", run: (s) => nextFound(s, 1) },
  { keys: ["F"], shown: "Shift+F", does: "to the one before", run: (s) => nextFound(s, -1) },
  { keys: ["s", "S"], shown: "S", does: "save the picture", run: (s) => (s.saving.value = s.tab.value === "graph") },
  { keys: ["?"], shown: "?", does: "help", run: (s) => (s.helping.value = !s.helping.value) },
  { keys: ["Escape"], shown: "Esc", does: "close, clear", run: letGo },
];

export function listenForKeys(store: Store, element: HTMLElement): () => void {
  // A widget shares its page with others: there the keys are its own only while it has the focus.
  const target: EventTarget = store.host.kind === "widget" ? element : document;
  const pointer = followPointer(target);
  const listen = (raw: Event) => {
    const event = raw as KeyboardEvent;
    if (event.defaultPrevented) return;
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      find(store);
      return;
    }
    if (awaitsFind(store, event)) {
      event.preventDefault();
      store.typed.value = [...store.typed.value, event.key];
      return;
    }
    // A dialog closes itself: it may be one that this page's state knows nothing of.
    if (event.key === "Escape" && event.target instanceof Element && event.target.closest("dialog") !== null) return;
    if (event.metaKey || event.ctrlKey || event.altKey || takesKeys(event, pointer.at())) return;
    const tab = /^[1-9]$/.test(event.key) ? tabsOf(store)[Number(event.key) - 1] : undefined;
    if (tab !== undefined) {
      store.tab.value = tab;
      return;
    }
    const found = KEYS.find((key) => key.keys.includes(event.key));
    if (found === undefined) return;
    event.preventDefault();
    if (event.key === " ") leaveUnpressed(event);
    found.run(store, event);
  };
  target.addEventListener("keydown", listen);
  return () => {
    target.removeEventListener("keydown", listen);
    pointer.stop();
  };
}

/** Whether a key is meant for find, which has been asked for and whose field is not there yet to take it. */
function awaitsFind(store: Store, { key, target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  if (!store.searching.value || later.wrong.value !== "" || target instanceof HTMLInputElement) return false;
  return (key.length === 1 && !ctrlKey && !metaKey && !altKey) || key === "Backspace" || key === "Enter";
}

/** Browsers press the focused button when space is let go of: not where the key has had another meaning. */
export function leaveUnpressed(event: KeyboardEvent): void {
  const stop = (up: Event) => {
    if ((up as KeyboardEvent).key !== " ") return;
    up.preventDefault();
    event.target?.removeEventListener("keyup", stop);
  };
  event.target?.addEventListener("keyup", stop);
}

/** What was last pressed with the pointer, for as long as it has the focus: the keyboard has not come to it by itself. */
export function followPointer(target: EventTarget): { at: () => Element | null; stop: () => void } {
  let pressed: Element | null = null;
  let down = false;
  const press = (event: Event) => {
    down = true;
    pressed = event.target instanceof Element ? event.target.closest(POINTED) ?? event.target.closest("label")?.control ?? null : null;
  };
  const release = () => (down = false);
  const focus = (event: Event) => {
    if (!down && event.target !== pressed) pressed = null;
  };
  const listeners: [string, (event: Event) => void][] = [["pointerdown", press], ["pointerup", release], ["pointercancel", release], ["focusin", focus]];
  for (const [name, listen] of listeners) target.addEventListener(name, listen, { capture: true });
  return {
    at: () => pressed,
    stop: () => {
      for (const [name, listen] of listeners) target.removeEventListener(name, listen, { capture: true });
    },
  };
}

/** What space presses when the keyboard has come to it. */
const PRESSED = "button, a, summary, [role=button], [role=tab]";
/** What a pointer can have come to. */
const POINTED = `${PRESSED}, input, select`;

/** Whether the focused element has a use of its own for the key; for space not where the pointer has just pressed it. */
export function takesKeys(event: KeyboardEvent, pressed: Element | null): boolean {
  const at = event.target;
  if (!(at instanceof HTMLElement)) return false;
  if (at.closest("[data-wg-keys]") !== null || at.isContentEditable) return event.key !== "Escape";
  if (at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement) {
    return event.key !== "Escape";
  }
  if (event.key === "Enter") return at.closest(`${PRESSED}, [role=treeitem]`) !== null;
  const own = at.closest(PRESSED);
  return event.key === " " && own !== null && own !== pressed;
}

function seekModule(store: Store, by: 1 | -1): void {
  const { trace, events } = store.model.value;
  const scopeAt = (k: number) => trace.nodes.scope[trace.events.node[k] as number] ?? 0;
  let k = store.cursor.value - 1;
  const from = k >= 0 ? scopeAt(k) : -1;
  do k += by;
  while (k >= 0 && k < events && scopeAt(k) === from);
  store.playing.value = false;
  seek(store, k + 1);
}

function walk(store: Store, up: boolean): void {
  const at = store.selection.value;
  const model = store.model.value;
  if (at?.kind !== "node") {
    select(store, { kind: "node", row: model.trace.meta.roots[0] ?? 0 });
    return;
  }
  const next = (up ? operandsOf(model, at.row) : consumersOf(model, at.row))[0];
  if (next !== undefined) select(store, { kind: "node", row: next });
}

function openSelected(store: Store, open: boolean): void {
  const at = store.selection.value;
  const { trace } = store.model.value;
  if (at?.kind === "scope") {
    toggleScope(store, at.row, open);
    if (!open && (trace.scopes.parent[at.row] as number) > 0) {
      select(store, { kind: "scope", row: trace.scopes.parent[at.row] as number });
    }
  } else if (at?.kind === "node" && !open) {
    const scope = trace.nodes.scope[at.row] as number;
    if (scope > 0) {
      toggleScope(store, scope, false);
      select(store, { kind: "scope", row: scope });
    }
  }
}

function seekNaN(store: Store): void {
  const { trace, events } = store.model.value;
  const finding = trace.findings.findIndex((f) => f.rule.startsWith("nan"));
  if (finding >= 0) {
    showFinding(store, finding);
    return;
  }
  for (let k = 0; k < events; k++) {
    const node = trace.events.node[k] as number;
    const backward = trace.events.phase[k] === 1;
    if (node >= 0 && (trace.nodes.flags[node] as number) & (backward ? FLAG.nanBackward : FLAG.nanForward)) {
      seek(store, k + 1);
      select(store, { kind: "node", row: node });
      return;
    }
  }
}

function letGo(store: Store): void {
  if (store.searching.value) store.searching.value = false;
  else if (store.helping.value) store.helping.value = false;
  else if (store.moved.value.size > 0) store.moved.value = new Map();
  else if (store.found.value !== null) store.found.value = null;
  else select(store, null);
}
