/** The page's side of a playground session: what the process has said last, and what the reader asks for. */
import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Host } from "../../hosts/host";
import type { Store } from "../../state";
import { emptyTrace } from "../../trace/empty";
import { modelOf } from "../../trace/model";
import type { Experiment, Frame, OptionValue, Scene, Told } from "./messages";

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
  const play: Play = {
    experiments,
    scene,
    frame: signal(null),
    recorded: signal(null),
    refused: signal(""),
    lost: signal(false),
    explains: signal(false),
    experiment: computed(() => experiments.value.find(({ name }) => name === scene.value?.experiment) ?? null),
    send: (message) => store.host.send?.(message),
  };
  plays.set(store.host, play);
  store.host.receive?.((message) => batch(() => take(store, play, message as Told)));
  return play;
}

function take(store: Store, play: Play, message: Told): void {
  switch (message.type) {
    case "welcome":
      play.experiments.value = message.experiments;
      break;
    case "scene":
      forget(store, play, message);
      play.scene.value = message;
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
    case "error":
      play.refused.value = message.text;
      break;
    case "closed":
      play.lost.value = true;
  }
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

export function reset(play: Play): void {
  play.send({ type: "reset" });
}
