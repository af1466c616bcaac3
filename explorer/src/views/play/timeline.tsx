/** Play, pause, step, begin anew, and the run's steps on a line that can be dragged back. */
import { roundTicks } from "../../plot/scale";
import { plainNumber } from "../../plot/numbers";
import { reset, seekTo, stepBy, togglePlaying, type Play } from "./session";
import type { Frame } from "./messages";

const ICONS = { back: "M16 5L7 12l9 7z", play: "M8 5l11 7-11 7z", pause: "M8 5v14M16 5v14", on: "M8 5l9 7-9 7z" } as const;

export function Buttons({ play, frame }: { play: Play; frame: Frame | null }) {
  const playing = frame?.playing ?? false;
  const buttons: [keyof typeof ICONS, string, () => void, boolean][] = [
    ["back", "One step back (←)", () => stepBy(play, -1), frame === null || frame.step === 0],
    [playing ? "pause" : "play", playing ? "Pause (space)" : "Play (space)", () => togglePlaying(play), frame === null],
    ["on", "One step on (→)", () => stepBy(play, 1), frame === null],
  ];
  return (
    <div class="wg-transport" role="group" aria-label="Run">
      {buttons.map(([icon, label, act, disabled], i) => (
        <button key={i} type="button" class={i === 1 ? "wg-play-button" : ""} aria-label={label} title={label} disabled={disabled} onClick={act}>
          <svg width="16" height="16" viewBox="0 0 24 24" aria-hidden="true">
            <path d={ICONS[icon]} fill="currentColor" stroke="currentColor" stroke-width="2.4" stroke-linejoin="round" stroke-linecap="round" />
          </svg>
        </button>
      ))}
      <button type="button" class="wg-play-reset" onClick={() => reset(play)}>
        Reset
      </button>
    </div>
  );
}

/** Speeds that are offered, in steps a second. */
const PACES = [1, 4, 15, 60, 240, 1000] as const;

export function Pace({ play, frame }: { play: Play; frame: Frame }) {
  return (
    <label class="wg-play-pace">
      <select value={String(frame.pace)} aria-label="Speed" onChange={(event) => play.send({ type: "pace", value: Number(event.currentTarget.value) })}>
        {[...new Set([...PACES, frame.pace])].sort((a, b) => a - b).map((pace) => (
          <option key={pace} value={String(pace)}>
            {plainNumber(pace)} {pace === 1 ? "step" : "steps"} a second
          </option>
        ))}
      </select>
    </label>
  );
}

export function Timeline({ play, frame }: { play: Play; frame: Frame }) {
  const share = (step: number) => step / Math.max(1, frame.horizon);
  return (
    <div class="wg-play-timeline" style={{ "--at": share(frame.step), "--known": share(frame.last) }}>
      <output class="wg-play-step" aria-live="off">
        step {plainNumber(frame.step)}
      </output>
      <input
        type="range"
        min={0}
        max={frame.horizon}
        value={frame.step}
        aria-label="Step of the run"
        aria-valuetext={`step ${frame.step} of ${frame.last} that are known`}
        onInput={(event) => seekTo(play, Number(event.currentTarget.value))}
      />
      <div class="wg-play-steps" aria-hidden="true">
        {roundTicks(0, frame.horizon, 4).map((tick) => (
          <span key={tick} style={{ left: `${100 * share(tick)}%` }}>
            {tick.toLocaleString("en")}
          </span>
        ))}
      </div>
    </div>
  );
}
