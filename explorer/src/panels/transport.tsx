/** Play, pause, one step, to either end; where the clock stands; how fast it goes. */
import type { ComponentChildren } from "preact";
import { seek, step, togglePlay, useStore } from "../state";

/** Events a second that the speed button goes through. */
const SPEEDS: readonly { readonly rate: number; readonly label: string }[] = [
  { rate: 1, label: "½ speed" },
  { rate: 2, label: "normal speed" },
  { rate: 8, label: "4× speed" },
  { rate: 64, label: "32× speed" },
  { rate: 1024, label: "512× speed" },
];

export function Transport() {
  const store = useStore();
  const { events } = store.model.value;
  const at = store.cursor.value;
  const speed = SPEEDS.findIndex(({ rate }) => rate >= store.speed.value);
  const next = SPEEDS[(speed + 1) % SPEEDS.length] as (typeof SPEEDS)[number];
  return (
    <div class="wg-transport" role="group" aria-label="Transport">
      <div class="wg-buttons">
        <Control label="To the start (Home)" off={at === 0} run={() => seek(store, 0)}>
          <path d="M6 5v14M19 5.5v13L9 12z" />
        </Control>
        <Control label="One step back (←)" off={at === 0} run={() => step(store, -1)}>
          <path d="M16.5 5.5v13L7 12z" />
        </Control>
        <Control label={store.playing.value ? "Pause (space)" : "Play (space)"} primary run={() => togglePlay(store)}>
          {store.playing.value ? <path d="M8 5.5v13M16 5.5v13" stroke-width="3.5" /> : <path d="M8 5v14l11-7z" />}
        </Control>
        <Control label="One step on (→)" off={at === events} run={() => step(store, 1)}>
          <path d="M7.5 5.5v13L17 12z" />
        </Control>
        <Control label="To the end (End)" off={at === events} run={() => seek(store, events)}>
          <path d="M18 5v14M5 5.5v13L15 12z" />
        </Control>
      </div>
      <div class="wg-transport-line">
        <span>
          step <b>{at.toLocaleString("en")}</b> of {events.toLocaleString("en")}
        </span>
        <button
          type="button"
          class="wg-link"
          title={`Change to ${next.label}`}
          onClick={() => (store.speed.value = next.rate)}
        >
          {SPEEDS[speed]?.label ?? "fastest"}
        </button>
        <span class="wg-hint">
          <kbd>space</kbd> {store.playing.value ? "pause" : "play"}
        </span>
      </div>
    </div>
  );
}

interface ControlProps {
  readonly label: string;
  readonly run: () => void;
  readonly primary?: boolean;
  readonly off?: boolean;
  readonly children: ComponentChildren;
}

function Control({ label, run, primary = false, off = false, children }: ControlProps) {
  return (
    <button
      type="button"
      class={primary ? "wg-control is-primary" : "wg-control"}
      aria-label={label}
      title={label}
      disabled={off}
      onClick={run}
    >
      <svg width="18" height="18" viewBox="0 0 24 24" aria-hidden="true">
        {children}
      </svg>
    </button>
  );
}
