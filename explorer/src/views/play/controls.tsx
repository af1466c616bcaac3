/** What can be set: the step size with the zone in which it diverges, and every other control by its kind. */
import { useState } from "preact/hooks";
import { change, type Play } from "./session";
import { plainNumber } from "../../plot/numbers";
import type { Control, Experiment, NumberControl, Options, OptionValue } from "./messages";

/** Positions of a slider from end to end. */
const NOTCHES = 1000;

function toNotch({ low, high, logarithmic }: NumberControl, value: number): number {
  const share = logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(NOTCHES * Math.max(0, Math.min(1, share)));
}

function fromNotch({ low, high, logarithmic, whole }: NumberControl, notch: number): number {
  const share = notch / NOTCHES;
  const value = logarithmic ? low * (high / low) ** share : low + share * (high - low);
  if (whole) return Math.round(value);
  // Two digits: round numbers can be met, and named.
  return Math.max(low, Math.min(high, Number(value.toPrecision(2))));
}

function isNumber(control: Control): control is NumberControl {
  return control.kind === "number";
}

function isWanted({ shown_with: other }: Control, options: Options): boolean {
  return other === undefined || options[other[0]] === other[1];
}

export function Controls({ play, experiment, options, limit }: { play: Play; experiment: Experiment; options: Options; limit: Limit | null }) {
  const rate = experiment.controls.find((control) => control.name === "rate");
  const rest = experiment.controls.filter((control) => control !== rate && isWanted(control, options));
  return (
    <>
      {rate !== undefined && isNumber(rate) && (
        <section class="wg-section">
          <StepSize play={play} control={rate} value={Number(options.rate)} limit={limit} />
        </section>
      )}
      {rest.length > 0 && (
        <section class="wg-section wg-play-controls" aria-label="Settings">
          {groupsOf(rest).map(([name, controls]) => (
            <Group key={name} name={name} controls={controls} options={options} play={play} />
          ))}
          {rest.filter(({ group }) => group === undefined).map((control) => (
            <Setting key={control.name} control={control} value={options[control.name] ?? control.default} set={(value) => change(play, control.name, value)} />
          ))}
          {play.refused.value !== "" && (
            <p class="wg-play-refused" role="alert">
              {play.refused.value}
            </p>
          )}
        </section>
      )}
    </>
  );
}

function groupsOf(controls: readonly Control[]): [string, Control[]][] {
  const names = [...new Set(controls.flatMap(({ group }) => group ?? []))];
  return names.map((name) => [name, controls.filter(({ group }) => group === name)]);
}

/** Switches that stand together, each a button that stays pressed. */
function Group({ name, controls, options, play }: { name: string; controls: readonly Control[]; options: Options; play: Play }) {
  return (
    <fieldset class="wg-play-group">
      <legend>{name}</legend>
      {controls.map((control) => {
        const on = (options[control.name] ?? control.default) === true;
        return (
          <button key={control.name} type="button" class="wg-math" aria-pressed={on} onClick={() => change(play, control.name, !on)}>
            {control.label}
          </button>
        );
      })}
    </fieldset>
  );
}

/** From which step size on a run diverges, and what says so. */
export interface Limit {
  readonly value: number;
  readonly formula: string;
  readonly words: string;
}

function StepSize({ play, control, value, limit }: { play: Play; control: NumberControl; value: number; limit: Limit | null }) {
  const notch = toNotch(control, value);
  const at = limit === null ? 2 * NOTCHES : toNotch(control, limit.value);
  const share = (n: number) => `${(100 * n) / NOTCHES}%`;
  const over = limit !== null && value >= limit.value;
  return (
    <div class={`wg-play-rate${over ? " is-over" : ""}`}>
      <div class="wg-play-label">
        <span>
          Step size <i class="wg-math">η</i>
        </span>
        <span class="wg-play-value">{plainNumber(value)}</span>
        <span class="wg-play-zones" aria-hidden="true">
          <span>creeps</span>
          {limit !== null && <span class="wg-bad">diverges</span>}
        </span>
        <input
          type="range"
          min={0}
          max={NOTCHES}
          value={notch}
          aria-label="Step size"
          aria-valuetext={`${plainNumber(value)}${over ? ", diverges" : ""}`}
          style={{ "--at": notch / NOTCHES, "--limit": at / NOTCHES }}
          onInput={(event) => change(play, control.name, fromNotch(control, Number(event.currentTarget.value)))}
        />
      </div>
      <div class="wg-play-notches" aria-hidden="true">
        {[0.01, 0.1].map((mark) => (
          <span key={mark} style={{ left: share(toNotch(control, mark)) }}>
            {String(mark).slice(1)}
          </span>
        ))}
        {limit !== null && (
          <span class="wg-bad" style={{ left: share(at) }}>
            {plainNumber(Number(limit.value.toPrecision(2)))}
          </span>
        )}
      </div>
      {limit !== null && (
        <p class="wg-play-note">
          The red zone starts at <i class="wg-math">{limit.formula}</i>, {limit.words}
        </p>
      )}
    </div>
  );
}

function Setting({ control, value, set }: { control: Control; value: OptionValue; set: (value: OptionValue) => void }) {
  switch (control.kind) {
    case "number":
      return <Slider control={control} value={Number(value)} set={set} />;
    case "switch":
      return (
        <label class="wg-play-switch">
          <span>{control.label}</span>
          <input type="checkbox" role="switch" checked={value === true} onChange={(event) => set(event.currentTarget.checked)} />
        </label>
      );
    case "choice":
      return control.choices.length <= 3 ? (
        <fieldset class="wg-play-choice">
          <legend>{control.label}</legend>
          {control.choices.map((choice) => (
            <label key={choice}>
              <input type="radio" name={`wg-${control.name}`} checked={choice === value} onChange={() => set(choice)} />
              <span>{choice}</span>
            </label>
          ))}
        </fieldset>
      ) : (
        <label class="wg-play-select">
          <span>{control.label}</span>
          <select aria-label={control.label} value={String(value)} onChange={(event) => set(event.currentTarget.value)}>
            {control.choices.map((choice) => (
              <option key={choice} value={choice}>
                {choice}
              </option>
            ))}
          </select>
        </label>
      );
    case "text":
      return <TextSetting label={control.label} longest={control.longest} value={String(value)} set={set} />;
  }
}

/** Controls that restart the run are followed when the slider is let go: a drag would begin a hundred runs. */
function Slider({ control, value, set }: { control: NumberControl; value: number; set: (value: number) => void }) {
  const [dragged, setDragged] = useState<number | null>(null);
  const shown = dragged ?? value;
  const discrete = control.whole && control.high - control.low <= 100;
  const read = (at: HTMLInputElement) => (discrete ? Number(at.value) : fromNotch(control, Number(at.value)));
  return (
    <div class="wg-play-label is-small">
      <span>{control.label}</span>
      <span class="wg-play-value">{plainNumber(shown)}</span>
      <input
        type="range"
        min={discrete ? control.low : 0}
        max={discrete ? control.high : NOTCHES}
        value={discrete ? shown : toNotch(control, shown)}
        aria-label={control.label}
        aria-valuetext={plainNumber(shown)}
        style={{ "--at": toNotch({ ...control, logarithmic: control.logarithmic && !discrete }, shown) / NOTCHES }}
        onInput={(event) => {
          const next = read(event.currentTarget);
          if (control.restarts) setDragged(next);
          else set(next);
        }}
        onChange={(event) => {
          setDragged(null);
          if (control.restarts) set(read(event.currentTarget));
        }}
      />
    </div>
  );
}

function TextSetting({ label, longest, value, set }: { label: string; longest: number; value: string; set: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  return (
    <div class="wg-play-text">
      <label>
        <span>{label}</span>
        <textarea rows={5} maxLength={longest} value={typed} spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <button type="button" class="wg-button" onClick={() => set(typed)}>
        Use it
      </button>
    </div>
  );
}
