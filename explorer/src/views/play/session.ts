/** The page's side of a playground session: what the process has said last, and what the reader asks for. */
import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Host } from "../../hosts/host";
import type { Store } from "../../state";
import { emptyTrace } from "../../trace/empty";
import { modelOf } from "../../trace/model";
import type { Experiment, Frame, OptionValue, Scene, Told } from "./messages";
import { linkedRun, linkText } from "./onward/link";
import type { StateMessage } from "./onward/python";

export interface Pinned {
  readonly layer: number;
  readonly unit: number;
}

export interface Play {
  readonly experiments: Signal<readonly Experiment[]>;
  readonly scene: Signal<Scene | null>;
  /** The last frame of the scene's run. */
  readonly frame: Signal<Frame | null>;
  /** The step whose recording the other tabs show; null where there is none of this run. */
  readonly recorded: Signal<number | null>;
  /** Why the last message could not be followed. */
  readonly refused: Signal<string>;
  readonly lost: Signal<boolean>;
  /** What a script needs to go on, where the reader has asked for it. */
  readonly state: Signal<StateMessage | null>;
  /** The neuron whose weights are set by hand: its layer, the last one being the result, and its place. */
  readonly pinned: Signal<Pinned | null>;
  /** Whether results are shown as the class that they stand for, and no shades between. */
  readonly discrete: Signal<boolean>;
  /** The settings as part of an address. */
  readonly link: ReadonlySignal<string>;
  /** Whether the page explains how a script of the reader's own joins in. */
  readonly explains: Signal<boolean>;
  readonly experiment: ReadonlySignal<Experiment | null>;
  send(message: unknown): void;
}

const plays = new WeakMap<Host, Play>();

/** The session behind a host; it goes on while other tabs are looked at. */
export function playOf(store: Store): Play {
  const known = plays.get(store.host);
  if (known !== undefined) return known;
  const scene = signal<Scene | null>(null);
  const experiments = signal<readonly Experiment[]>([]);
  const frame = signal<Frame | null>(null);
  const experiment = computed(() => experiments.value.find(({ name }) => name === scene.value?.experiment) ?? null);
  const play: Play = {
    experiments,
    scene,
    frame,
    recorded: signal(null),
    refused: signal(""),
    lost: signal(false),
    explains: signal(false),
    state: signal(null),
    pinned: signal(null),
    discrete: signal(false),
    experiment,
    link: computed(() => {
      const options = frame.value?.options ?? scene.value?.options;
      return experiment.value === null || options === undefined || experiment.value.view === "script" ? "" : linkText(experiment.value, options);
    }),
    send: (message) => store.host.send?.(message),
  };
  plays.set(store.host, play);
  // The page's address soon says other things.
  const address = globalThis.location?.hash ?? "";
  store.host.receive?.((message) => batch(() => take(store, play, message as Told, address)));
  globalThis.addEventListener?.("hashchange", () => followLink(store, play, location.hash));
  return play;
}

function take(store: Store, play: Play, message: Told, address: string): void {
  switch (message.type) {
    case "welcome":
      play.experiments.value = message.experiments;
      followLink(store, play, address);
      break;
    case "scene":
      forget(store, play, message);
      play.scene.value = message;
      play.pinned.value = null;
      play.frame.value = null;
      play.recorded.value = null;
      play.refused.value = "";
      break;
    case "frame":
      if (message.run === play.scene.value?.run) play.frame.value = message;
      break;
    case "trace":
      if (message.run === play.scene.value?.run) {
        play.recorded.value = message.step;
        show(store, message.document);
      }
      break;
    case "state":
      play.state.value = message;
      break;
    case "error":
      play.refused.value = message.text;
      break;
    case "closed":
      play.lost.value = true;
  }
}

/** The address says which experiment, how it is set; from then on the address follows what is set. */
function followLink(store: Store, play: Play, address: string): void {
  const asked = linkedRun(address, play.experiments.value);
  if (asked !== null) play.send({ type: "open", ...asked });
  store.further.value = () => play.link.value;
}

/**
 * A run begins. What other tabs show of another experiment is gone at once; that of this one with the run's first
 * recording, which comes by itself, but for scripts.
 */
function forget(store: Store, play: Play, scene: Scene): void {
  const before = play.scene.value;
  const opened = play.experiments.value.find(({ name }) => name === scene.experiment);
  if (before === null || (before.experiment === scene.experiment && opened?.view !== "script")) return;
  show(store, emptyTrace(`${opened?.title ?? scene.experiment}: nothing recorded yet`));
}

/** A newly recorded step: rows mean what they did only where the graph is the same. */
function show(store: Store, document: Parameters<typeof modelOf>[0]): void {
  const before = store.model.value;
  const model = modelOf(document);
  const same = before.nodes === model.nodes && before.trace.scopes.hash[0] === model.trace.scopes.hash[0];
  const atEnd = store.cursor.value >= before.events;
  store.model.value = model;
  // Leaves were moved away from numbers that are no longer those of the step.
  store.moved.value = new Map();
  if (same && !atEnd) return;
  store.cursor.value = model.events;
  if (same) return;
  store.selection.value = null;
  store.hover.value = null;
  store.open.value = new Set();
}

// -- what the reader can do

export function open(play: Play, experiment: string): void {
  play.explains.value = false;
  play.send({ type: "open", experiment, options: {} });
}

export function change(play: Play, name: string, value: OptionValue): void {
  play.refused.value = "";
  play.send({ type: "set", name, value });
}

export function togglePlaying(play: Play): void {
  play.send({ type: "play", on: !(play.frame.value?.playing ?? false) });
}

export function stepBy(play: Play, by: number): void {
  play.send({ type: "step", count: by });
}

export function seekTo(play: Play, step: number): void {
  const last = play.frame.value?.last ?? 0;
  play.send({ type: "seek", step: Math.max(0, Math.min(last, Math.round(step))) });
}

/** Sets one number of a parameter by hand, at the step that is shown. */
export function edit(play: Play, parameter: number, index: number, value: number): void {
  play.refused.value = "";
  play.send({ type: "edit", parameter, index, value });
}

export function reset(play: Play): void {
  play.send({ type: "reset" });
}
