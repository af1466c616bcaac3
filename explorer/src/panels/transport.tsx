/** Buttons of the clock: start, back, play, on, end. */
import { seek, step, togglePlay, useStore } from "../state";

const ICONS = {
  start: "M6 5v14M19 5L9 12l10 7z",
  back: "M16 5L7 12l9 7z",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  on: "M8 5l9 7-9 7z",
  end: "M18 5v14M5 5l10 7-10 7z",
} as const;

export function Transport() {
  const store = useStore();
  const playing = store.playing.value;
  const buttons: [keyof typeof ICONS, string, () => void][] = [
    ["start", "To the start (Home)", () => seek(store, 0)],
    ["back", "One step back (←)", () => step(store, -1)],
    [playing ? "pause" : "play", playing ? "Pause (space)" : "Play (space)", () => togglePlay(store)],
    ["on", "One step on (→)", () => step(store, 1)],
    ["end", "To the end (End)", () => seek(store, store.model.value.events)],
  ];
  return (
    <div class="wg-transport" role="group" aria-label="Clock">
      {buttons.map(([icon, label, act], i) => (
        <button key={i} type="button" class={i === 2 ? "wg-play-button" : ""} aria-label={label} title={label} onClick={act}>
          <svg width="16" height="16" viewBox="0 0 24 24" aria-hidden="true">
            <path d={ICONS[icon]} fill="currentColor" stroke="currentColor" stroke-width="2.4" stroke-linejoin="round" stroke-linecap="round" />
          </svg>
        </button>
      ))}
    </div>
  );
}
