/** What is alive at the cursor and at the peak, who holds it and for how long, and what checkpoints would change. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { shapeOf, type Model } from "../trace/model";
import { reveal, seek, useStore, type Store } from "../state";
import { shownBytes, shownShape } from "../format";
import { placeOf, spanOf } from "../panels/source";
import { timelineOf } from "../panels/survey/timeline";
import { aliveOf, BANDS, heldAt, lifeOf } from "./memory/alive";
import { choices, foreseeLater, foreseenOf } from "./memory/foreseen";
import { byLayer, CLASS_WORDS, classOf, holderName, moduleOf } from "./memory/holders";
import { HeldMap } from "./memory/held_map";
import { stripOf } from "./survey/strip";

const SHOWN = 80;

export function MemoryView() {
  const store = useStore();
  const model = store.model.value;
  const atPeak = useSignal(false);
  const alive = aliveOf(model);
  const event = atPeak.value ? alive.peakAt : store.cursor.value - 1;
  const held = useMemo(() => heldAt(model, event), [model, event]);
  const bytes = event < 0 ? alive.atRest : (alive.total[event] as number);
  const strip = useMemo(() => stripOf(model), [model]);
  const groups = useMemo(() => byLayer(model, strip, held), [held, strip]);
  return (
    <div class="wg-view wg-memory" tabIndex={0} aria-label="Memory">
      <header class="wg-view-head">
        <h2>{shownBytes(bytes)} alive</h2>
        <span class="wg-muted">
          {held.length.toLocaleString("en")} buffers {event < 0 ? "before the first step" : `at step ${(event + 1).toLocaleString("en")}`}
          {model.trace.memory?.optimizer !== undefined && `, and ${shownBytes(model.trace.memory.optimizer)} of optimiser state beside them`}
        </span>
        <div class="wg-segments" role="group" aria-label="Moment">
          <button type="button" aria-pressed={!atPeak.value} onClick={() => (atPeak.value = false)}>
            at the cursor
          </button>
          <button type="button" aria-pressed={atPeak.value} onClick={() => (atPeak.value = true)}>
            at the peak
          </button>
        </div>
        {atPeak.value && (
          <button type="button" class="wg-link" onClick={() => seek(store, alive.peakAt + 1)}>
            go there
          </button>
        )}
      </header>
      <Bands model={model} event={event} />
      <div class="wg-memory-above">
        <HeldMap groups={groups} />
        <Checkpoints model={model} />
      </div>
      <Holders store={store} model={model} held={held} />
    </div>
  );
}

/** The moment's bytes by band, as numbers beside their colours: the legend of map and chart. */
function Bands({ model, event }: { model: Model; event: number }) {
  const alive = aliveOf(model);
  return (
    <ul class="wg-bands">
      {BANDS.map((name, i) => {
        const bytes = event < 0 ? (i === 0 ? alive.atRest : 0) : ((alive.bands[i] as Float64Array)[event] as number);
        return (
          <li key={name} class={`wg-band-${i}`}>
            {name} <b class="wg-mono">{shownBytes(bytes)}</b>
          </li>
        );
      })}
    </ul>
  );
}

function Holders({ store, model, held }: { store: Store; model: Model; held: readonly number[] }) {
  const line = timelineOf(model);
  const selected = store.selection.value;
  // What is chosen stands first, however small it is.
  const mine = selected?.kind === "node" ? held.filter((b) => model.trace.buffers.node[b] === selected.row) : [];
  const rows = [...mine, ...held.filter((b) => !mine.includes(b)).slice(0, SHOWN)];
  const rest = held.filter((b) => !mine.includes(b)).slice(SHOWN);
  const restBytes = rest.reduce((sum, b) => sum + (model.trace.buffers.bytes[b] as number), 0);
  const now = line.mark[store.cursor.value] as number;
  return (
    <section class="wg-holders" aria-label="Holders">
      <table class="wg-rows">
        <thead>
          <tr>
            <th scope="col">bytes</th>
            <th scope="col">what</th>
            <th scope="col">of</th>
            <th scope="col">life</th>
            <th scope="col">shape</th>
            <th scope="col">module</th>
            <th scope="col">line</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((b) => {
            const node = model.trace.buffers.node[b] as number;
            const on = selected?.kind === "node" && selected.row === node;
            const [from, to] = lifeOf(model, b);
            return (
              <tr key={b} aria-selected={on} onClick={() => node >= 0 && reveal(store, { kind: "node", row: node })}>
                <td class="wg-mono">{shownBytes(model.trace.buffers.bytes[b] as number)}</td>
                <td class={`wg-class wg-class-${classOf(model, b)}`}>{CLASS_WORDS[classOf(model, b)]}</td>
                <td>
                  <button type="button" class="wg-link" disabled={node < 0}>
                    {holderName(model, b)}
                  </button>
                </td>
                <td>
                  <Life from={from === 0 ? 0 : (line.mark[from] as number)} to={line.mark[to + 1] as number} now={now} label={`steps ${from + 1} to ${to + 1}`} />
                </td>
                <td class="wg-mono">{node < 0 ? "" : shownShape(shapeOf(model, node))}</td>
                <td>{moduleOf(model, b)}</td>
                <td class="wg-muted">{node < 0 ? "" : placeOf(model.trace, spanOf(model, node))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {rest.length > 0 && (
        <p class="wg-muted">
          and {rest.length.toLocaleString("en")} more with {shownBytes(restBytes)}
        </p>
      )}
    </section>
  );
}

function Life({ from, to, now, label }: { from: number; to: number; now: number; label: string }) {
  return (
    <svg class="wg-life" viewBox="0 0 90 12" role="img" aria-label={label}>
      <title>{label}</title>
      <path d="M0 6H90" class="wg-life-axis" />
      <rect x={from * 90} y="3" width={Math.max(1.5, (to - from) * 90)} height="6" rx="2" class="wg-life-bar" />
      <path d={`M${now * 90} 0V12`} class="wg-life-now" />
    </svg>
  );
}

function Checkpoints({ model }: { model: Model }) {
  const chosen = foreseenOf(model);
  const all = useMemo(() => choices(model), [model]);
  useEffect(() => foreseeLater(model), [model]);
  const { peak } = aliveOf(model);
  return (
    <section class="wg-checkpoints" aria-label="Checkpoints">
      <h3>What if layers were computed again?</h3>
      {all.length === 0 ? (
        <p class="wg-muted">No part of this run keeps enough for that.</p>
      ) : (
        <table class="wg-rows">
          <thead>
            <tr>
              <th scope="col">checkpoint</th>
              <th scope="col">peak</th>
              <th scope="col">extra time</th>
            </tr>
          </thead>
          <tbody>
            <tr aria-selected={false}>
              <td>as it is</td>
              <td class="wg-mono">{shownBytes(peak)}</td>
              <td class="wg-mono">0%</td>
            </tr>
            {all.map((choice) => (
              <tr key={choice.label} aria-selected={chosen.value?.label === choice.label} onClick={() => (chosen.value = choice)}>
                <td>
                  <button type="button" class="wg-link" aria-pressed={chosen.value?.label === choice.label}>
                    {choice.label}
                  </button>
                </td>
                <td class={`wg-mono ${choice.peak < peak ? "wg-kernel" : ""}`}>{shownBytes(choice.peak)}</td>
                <td class="wg-mono">+{Math.round(100 * choice.extra)}%</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="wg-muted">The dashed line in the clock is the chosen one. Inside a checkpoint only what comes in is kept, and its forward work is done twice.</p>
    </section>
  );
}
