/** The card that tells the step: its pattern, one plain sentence, the numbers. */
import { useRef } from "preact/hooks";
import { Formula } from "../../formula/view";
import { step, useStore } from "../../state";
import { PatternIcon } from "../glyph";
import { tellingOf, type Bit, type Phrase } from "./telling";

export function Narrator() {
  const store = useStore();
  const model = store.model.value;
  const told = tellingOf(model, store.numbers.value, store.cursor.value);
  const back = told.phase === "backward";
  const swipe = useRef<{ x: number; y: number } | null>(null);
  return (
    <section
      class={`wg-narrator is-${told.phase}`}
      aria-label="This step"
      onTouchStart={(event) => {
        const touch = event.touches[0];
        swipe.current = touch === undefined || event.touches.length > 1 ? null : { x: touch.clientX, y: touch.clientY };
      }}
      onTouchEnd={(event) => {
        const [from, touch] = [swipe.current, event.changedTouches[0]];
        swipe.current = null;
        if (from === null || touch === undefined) return;
        const by = swiped(touch.clientX - from.x, touch.clientY - from.y);
        if (by !== 0) step(store, by);
      }}
    >
      <div class="wg-narrator-icon">
        {back ? <PatternIcon pattern={told.pattern} size={34} /> : <ForwardIcon start={told.phase === "start"} />}
      </div>
      <div class="wg-narrator-text">
        <p class="wg-sentence">
          {told.badge !== "" && <span class="wg-pill">{told.badge}</span>}
          <Words phrase={told.sentence} />
        </p>
        <p class="wg-told">
          {told.numbers.map((phrase, i) => (
            <span key={i} class="wg-phrase">
              <Words phrase={phrase} />
            </span>
          ))}
        </p>
      </div>
      <div class="wg-narrator-step">
        <span>{told.place}</span>
        <div>
          <button type="button" aria-label="One step back" onClick={() => step(store, -1)}>
            ←
          </button>
          <button type="button" aria-label="One step on" onClick={() => step(store, 1)}>
            →
          </button>
        </div>
      </div>
    </section>
  );
}

/** Pixels sideways that are a swipe, and by how much they must outdo those up or down. */
const [SWIPE, SLANT] = [36, 1.5];

/** The steps that a swipe means: to the left one on, as pages are turned. */
export function swiped(dx: number, dy: number): -1 | 0 | 1 {
  if (Math.abs(dx) < SWIPE || Math.abs(dx) < SLANT * Math.abs(dy)) return 0;
  return dx < 0 ? 1 : -1;
}

function ForwardIcon({ start }: { start: boolean }) {
  return (
    <svg
      width="34"
      height="34"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {start ? <path d="M8 5v14l11-7z" /> : <path d="M3 7C8 7 8 12 13 12H21M3 17C8 17 8 12 13 12M18 9l3 3l-3 3" />}
    </svg>
  );
}

export function Words({ phrase }: { phrase: Phrase }) {
  return <>{phrase.map((bit, i) => word(bit, i))}</>;
}

function word(bit: Bit, key: number) {
  if (bit.kind === "math") return <Formula key={key} parts={bit.parts} />;
  if (bit.kind === "derivative") {
    return (
      <span key={key} class="wg-derivative">
        ∂<Formula parts={[bit.of]} />
        /∂
        <Formula parts={[bit.by]} />
      </span>
    );
  }
  switch (bit.tone) {
    case "plain":
      return <span key={key}>{bit.text}</span>;
    case "strong":
      return <b key={key}>{bit.text}</b>;
    case "em":
      return <em key={key}>{bit.text}</em>;
    case "value":
      return (
        <span key={key} class="wg-number">
          {bit.text}
        </span>
      );
    case "gradient":
      return (
        <span key={key} class="wg-number wg-grad">
          {bit.text}
        </span>
      );
  }
}
