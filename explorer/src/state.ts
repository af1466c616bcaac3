/** What every view shares: one document, one clock, one selection. Views read signals and call actions; nothing else. */
import { computed, effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Host } from "./hosts/host";
import { recordedGradient, recordedSlope, recordedValue, type Model } from "./trace/model";

export const TABS = ["graph", "tape", "paths", "memory", "parallel", "kernels", "ranks", "weights", "diff", "play"] as const;
export type Tab = (typeof TABS)[number];
export type Theme = "light" | "dark";

export type Selection =
  | { readonly kind: "node"; readonly row: number }
  | { readonly kind: "scope"; readonly row: number }
  | { readonly kind: "edge"; readonly row: number }
  | null;

/** The numbers of the run, or what they become where the reader has moved a leaf. */
export interface Numbers {
  value(node: number): number | null;
  gradient(node: number): number | null;
  slope(edge: number): number | null;
}

export interface Lit {
  readonly query: string;
  /** Ascending. */
  readonly rows: readonly number[];
}

export interface Store {
  readonly model: Signal<Model>;
  readonly host: Host;
  /** How many events have happened, 0 to `model.events`. */
  readonly cursor: Signal<number>;
  readonly playing: Signal<boolean>;
  /** Events a second. */
  readonly speed: Signal<number>;
  readonly selection: Signal<Selection>;
  /** What the pointer rests on. */
  readonly hover: Signal<Selection>;
  readonly open: Signal<ReadonlySet<number>>;
  readonly tab: Signal<Tab>;
  readonly theme: Signal<Theme>;
  readonly finding: Signal<number>;
  readonly searching: Signal<boolean>;
  /** Keys pressed since find was asked for, until its field is there to take them. */
  readonly typed: Signal<readonly string[]>;
  readonly helping: Signal<boolean>;
  /** Whether it is asked how the picture is to be saved. */
  readonly saving: Signal<boolean>;
  /** What was searched for last and is lit in the views, with the rows of nodes that were found; null for nothing. */
  readonly found: Signal<Lit | null>;
  /** What else the address of the page says. */
  readonly further: Signal<() => string>;
  /** Leaves that the reader has moved, by row. */
  readonly moved: Signal<ReadonlyMap<number, number>>;
  /** Whether gradients are guessed before they are shown. */
  readonly guessing: Signal<boolean>;
  readonly numbers: ReadonlySignal<Numbers>;
  /** The event that happened last, or -1. */
  readonly last: ReadonlySignal<number>;
  /** How many workers the run is simulated with; 0 shows it as it ran. */
  readonly workers: Signal<number>;
  /** What a view that has times of its own makes of a step on the clock; null where steps are events. */
  readonly stepping: Signal<((by: number) => void) | null>;
  /** Small scalar graphs are told number by number; all others are surveyed. */
  readonly small: ReadonlySignal<boolean>;
}

/** With so many workers a run is simulated until another number is chosen. */
export const WORKERS_FIRST = 4;
export const MOST_WORKERS = 8;

/** Up to here every node is shown at once, and each step is a sentence; of single numbers up to the second. */
export const [SMALL, NUMBERS] = [40, 150];
/** Up to here the graph is shown without the strip of its layers, which would say the same again. */
export const MIDDLE = 300;

/** Whether all that a run computes are single numbers, which stand in their boxes. */
function isNumbers(model: Model): boolean {
  return model.trace.nodes.shape.every((shape) => (model.trace.shapes[shape as number] ?? []).every((size) => size === 1));
}

export type Recompute = (model: Model, moved: ReadonlyMap<number, number>) => Numbers | null;

export function recordedNumbers(model: Model): Numbers {
  return {
    value: (node) => recordedValue(model, node),
    gradient: (node) => recordedGradient(model, node),
    slope: (edge) => recordedSlope(model, edge),
  };
}

export function createStore(model: Model, host: Host, recompute: Recompute): Store {
  const current = signal(model);
  const cursor = signal(model.events);
  const moved = signal<ReadonlyMap<number, number>>(new Map());
  const recorded = computed(() => recordedNumbers(current.value));
  const store: Store = {
    model: current,
    host,
    cursor,
    playing: signal(false),
    speed: signal(2),
    selection: signal(null),
    hover: signal(null),
    open: signal(new Set<number>()),
    tab: signal(model.trace.diff === undefined ? "graph" : "diff"),
    theme: signal(preferredTheme()),
    finding: signal(-1),
    searching: signal(false),
    typed: signal([]),
    helping: signal(false),
    saving: signal(false),
    found: signal(null),
    moved,
    workers: signal(WORKERS_FIRST),
    stepping: signal(null),
    further: signal(() => ""),
    guessing: signal(false),
    numbers: computed(() =>
      moved.value.size === 0 ? recorded.value : (recompute(current.value, moved.value) ?? recorded.value),
    ),
    last: computed(() => cursor.value - 1),
    small: computed(() => (current.value.nodes <= SMALL || (current.value.nodes <= NUMBERS && isNumbers(current.value))) && current.value.trace.meta.stored !== true && current.value.trace.batching === undefined),
  };
  return store;
}

const DARK = "(prefers-color-scheme: dark)";

export function preferredTheme(): Theme {
  return typeof matchMedia === "function" && matchMedia(DARK).matches ? "dark" : "light";
}

/** The system's colours change with the time of day: whoever speaks last is right, the system or the reader. */
export function followTheme(store: Pick<Store, "theme">): () => void {
  const system = matchMedia(DARK);
  const listen = () => {
    store.theme.value = preferredTheme();
  };
  system.addEventListener("change", listen);
  return () => system.removeEventListener("change", listen);
}

// -- actions

export function seek(store: Store, to: number): void {
  store.cursor.value = Math.max(0, Math.min(store.model.value.events, Math.round(to)));
}

export function step(store: Store, by: number): void {
  store.playing.value = false;
  const own = store.stepping.value;
  if (own !== null) own(by);
  else seek(store, store.cursor.value + by);
}

export function togglePlay(store: Store): void {
  if (!store.playing.value && store.cursor.value >= store.model.value.events) store.cursor.value = 0;
  store.playing.value = !store.playing.value;
}

/** A page of which find is no part has none. */
export function find(store: Store): void {
  store.typed.value = [];
  store.searching.value = store.host.kind !== "local";
}

export function select(store: Store, selection: Selection): void {
  store.selection.value = selection;
}

export function toggleScope(store: Store, scope: number, open = !store.open.value.has(scope)): void {
  const next = new Set(store.open.value);
  if (open) next.add(scope);
  else next.delete(scope);
  store.open.value = next;
}

/** Selects something and opens every module around it. */
export function reveal(store: Store, selection: NonNullable<Selection>): void {
  const model = store.model.value;
  const { scopes, nodes } = model.trace;
  let scope: number;
  if (selection.kind === "scope") scope = scopes.parent[selection.row] as number;
  else scope = nodes.scope[selection.kind === "edge" ? (model.dst[selection.row] as number) : selection.row] as number;
  const next = new Set(store.open.value);
  for (let s = scope; s > 0; s = scopes.parent[s] as number) next.add(s);
  store.open.value = next;
  select(store, selection);
}

/** Selects the next (or the previous) of what was found, after what is selected. */
export function nextFound(store: Store, by: 1 | -1): void {
  const rows = store.found.value?.rows ?? [];
  if (rows.length === 0) return;
  const at = store.selection.value?.kind === "node" ? store.selection.value.row : -1;
  const next = by > 0 ? rows.find((row) => row > at) : rows.findLast((row) => row < at);
  reveal(store, { kind: "node", row: next ?? (rows.at(by > 0 ? 0 : -1) as number) });
}

export function moveLeaf(store: Store, node: number, value: number | null): void {
  const next = new Map(store.moved.value);
  if (value === null) next.delete(node);
  else next.set(node, value);
  store.moved.value = next;
}

/** Advances the cursor while playing; returns what ends it. */
export function runClock(store: Store): () => void {
  let timer = 0;
  const stop = effect(() => {
    clearInterval(timer);
    if (!store.playing.value || store.stepping.value !== null) return;
    const period = Math.max(16, 1000 / store.speed.value);
    const stride = Math.max(1, Math.round((store.speed.value * period) / 1000));
    timer = window.setInterval(() => {
      seek(store, store.cursor.peek() + stride);
      if (store.cursor.peek() >= store.model.peek().events) store.playing.value = false;
    }, period);
  });
  return () => {
    clearInterval(timer);
    stop();
  };
}

// -- for components

export const StoreContext = createContext<Store | null>(null);

export function useStore(): Store {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("no store above this component");
  return store;
}
