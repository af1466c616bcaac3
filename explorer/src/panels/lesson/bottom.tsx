/** The clock: transport, the strip of what the tape keeps, and what that comes to. */
import { useMemo } from "preact/hooks";
import { shownBytes, shownCount, shownTime } from "../../format";
import { flopsOf, phaseAt } from "../../trace/model";
import { useStore } from "../../state";
import { Transport } from "../transport";
import { keepingOf, type Keeping } from "./keeping";
import { Strip } from "./strip";

export function LessonBottom() {
  const store = useStore();
  const model = store.model.value;
  const keeping = useMemo(() => keepingOf(model), [model]);
  return (
    <>
      <section class="wg-bottom wg-lesson-ctl" aria-label="Transport">
        <Transport />
        <StepLine />
      </section>
      <section class="wg-bottom wg-lesson-clock" aria-label="Clock">
        <Strip keeping={keeping} />
      </section>
      <section class="wg-bottom wg-lesson-sum" aria-label="Sums">
        <Sums keeping={keeping} />
      </section>
    </>
  );
}

/** Events a second that the speed button goes through. */
const SPEEDS: readonly { readonly rate: number; readonly label: string }[] = [
  { rate: 1, label: "½ speed" },
  { rate: 2, label: "1× speed" },
  { rate: 6, label: "3× speed" },
];

function StepLine() {
  const store = useStore();
  const speed = SPEEDS.findIndex(({ rate }) => rate >= store.speed.value);
  const next = SPEEDS[(speed + 1) % SPEEDS.length] as (typeof SPEEDS)[number];
  return (
    <p class="wg-step-line">
      <span>
        step <b>{store.cursor.value}</b> of {store.model.value.events}
      </span>
      <button
        type="button"
        class="wg-plain-link"
        title={`Change to ${next.label}`}
        onClick={() => (store.speed.value = next.rate)}
      >
        {SPEEDS[speed]?.label ?? "fast"}
      </button>
      <span class="wg-hint">
        <kbd>space</kbd> {store.playing.value ? "pause" : "play"}
      </span>
    </p>
  );
}

function Sums({ keeping }: { keeping: Keeping }) {
  const store = useStore();
  const model = store.model.value;
  const back = model.turn < model.events;
  const work = Array.from({ length: model.nodes }, (_, node) => flopsOf(model, node)).reduce((a, b) => a + b, 0);
  const time = { forward: 0, backward: 0 };
  for (let k = 0; k < model.events; k++) {
    const phase = phaseAt(model, k);
    if (phase === "forward" || phase === "backward") time[phase] += model.trace.events.dur[k] as number;
  }
  // What an eager program computed before anybody watched has no times.
  return (
    <dl class="wg-sums">
      <div>
        <dt>held for backward</dt>
        <dd>
          <Amount keeping={keeping} amount={keeping.held[store.cursor.value] ?? 0} />
        </dd>
      </div>
      <div>
        <dt>peak{back && keeping.held[model.turn] === keeping.peak ? ", at the turn" : ""}</dt>
        <dd>
          <Amount keeping={keeping} amount={keeping.peak} />
        </dd>
      </div>
      <div>
        <dt>work, forward</dt>
        <dd>
          <b>{shownCount(work)}</b> flops
        </dd>
      </div>
      {time.forward + time.backward > 0 && (
        <div title="As recorded: the recording itself takes part of it">
          <dt>time{back ? ", fwd / back" : ", forward"}</dt>
          <dd>
            <b>{shownTime(time.forward)}</b>
            {back && ` / ${shownTime(time.backward)}`}
          </dd>
        </div>
      )}
    </dl>
  );
}

function Amount({ keeping, amount }: { keeping: Keeping; amount: number }) {
  if (keeping.unit === "bytes") return <b>{shownBytes(amount)}</b>;
  return (
    <>
      <b>{amount}</b> {amount === 1 ? "value" : "values"}
    </>
  );
}
