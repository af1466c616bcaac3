/** The scrubber that is a chart: how much is kept for the backward pass, with a tick for every operation. */
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { estimatedWidth } from "../../draw/text";
import { shownBytes } from "../../format";
import { phaseAt, symbolOf, text, type Model } from "../../trace/model";
import { seek, useStore } from "../../state";
import type { Keeping } from "./keeping";
import { plainPhrase, tellingOf } from "./telling";

const TOP = 40;
const BASE = 84;
const TICK = 26;
const SIDE = 20;
/** Ticks with symbols stand at least this far apart; closer ones are thin marks. */
const ROOM = 30;

export function Strip({ keeping }: { keeping: Keeping }) {
  const store = useStore();
  const model = store.model.value;
  const frame = useRef<HTMLDivElement>(null);
  const fade = useId();
  const width = useWidth(frame);
  const scale = scaleOf(model, width);
  const at = store.cursor.value;
  const to = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    seek(store, scale.cursorAt(event.clientX - box.left));
  };
  const words = headings(model, keeping, scale);
  const back = at > model.turn;
  const told = plainPhrase(tellingOf(model, store.numbers.value, at).sentence);
  return (
    <div
      class="wg-keep"
      ref={frame}
      role="slider"
      tabIndex={0}
      aria-label="Clock"
      aria-valuemin={0}
      aria-valuemax={model.events}
      aria-valuenow={at}
      aria-valuetext={`Step ${at} of ${model.events}. ${told}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        store.playing.value = false;
        to(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons === 1) to(event);
      }}
    >
      {width > 0 && (
        <svg width={width} height={130} aria-hidden="true">
          <defs>
            <linearGradient id={fade} x1="0" x2="1">
              <stop offset="0" stop-color="var(--wg-value)" stop-opacity="0.22" />
              <stop
                offset={String(Math.min(1, model.turn / Math.max(1, model.events)))}
                stop-color="var(--wg-value)"
                stop-opacity="0.18"
              />
              <stop offset="1" stop-color="var(--wg-grad)" stop-opacity="0.3" />
            </linearGradient>
          </defs>
          <text class="wg-keep-pass" x={scale.x0} y={17}>
            FORWARD
          </text>
          {model.turn < model.events && (
            <>
              <text class="wg-keep-pass is-back" x={scale.x1} y={17} text-anchor="end">
                BACKWARD
              </text>
              {words.turn && (
                <text class="wg-keep-word" x={scale.edge(model.turn)} y={17} text-anchor="middle">
                  {TURN}
                </text>
              )}
              <path class="wg-keep-turn" d={`M${scale.edge(model.turn)} 26V${BASE}`} />
            </>
          )}
          <text class="wg-keep-word" x={scale.x0 + PASS} y={17}>
            {words.kept}
          </text>
          <path class="wg-keep-area" fill={`url(#${fade})`} d={areaOf(model, keeping, scale)} />
          <path class="wg-keep-base" d={`M${scale.x0} ${BASE}H${scale.edge(model.turn)}`} />
          <path class="wg-keep-base is-back" d={`M${scale.edge(model.turn)} ${BASE}H${scale.x1}`} />
          <Ticks model={model} scale={scale} at={at} />
          <g class={back ? "wg-keep-cursor is-back" : "wg-keep-cursor"} transform={`translate(${scale.cursor(at)} 0)`}>
            <path d={`M0 33V${BASE + 6}`} />
            <circle cy="31" r="5.5" />
          </g>
        </svg>
      )}
    </div>
  );
}

/** Room for the name of a pass at either end of the line of headings. */
const PASS = 76;
const TURN = "the turn";

/** What is written above the chart: how much is kept, shorter where there is little room, and the turn where it fits. */
function headings(model: Model, keeping: Keeping, scale: Scale): { kept: string; turn: boolean } {
  const half = wordWidth(TURN) / 2 + 8;
  const at = scale.edge(model.turn);
  const fits = (kept: string) => scale.x0 + PASS + wordWidth(kept) < at - half && at + half < scale.x1 - PASS;
  const size = shownBytes(keeping.peak);
  const forms = keeping.unit === "values" ? ["values kept", "kept"] : [`kept, up to ${size}`, `≤ ${size}`];
  const kept = forms.find(fits);
  return { kept: kept ?? (forms[0] as string), turn: kept !== undefined };
}

function wordWidth(word: string): number {
  return estimatedWidth(word, "ui", 13);
}

interface Scale {
  readonly x0: number;
  readonly x1: number;
  /** Where cell k begins: event k's share of the width. */
  edge(k: number): number;
  middle(k: number): number;
  /** Where the cursor stands after k events: in the middle of the last that happened. */
  cursor(k: number): number;
  cursorAt(x: number): number;
}

function scaleOf(model: Model, width: number): Scale {
  const n = Math.max(1, model.events);
  const [x0, x1] = [SIDE, width - SIDE];
  const cell = (x1 - x0) / n;
  const edge = (k: number) => x0 + k * cell;
  return {
    x0,
    x1,
    edge,
    middle: (k) => edge(k + 0.5),
    cursor: (k) => (k === 0 ? x0 : edge(k - 0.5)),
    cursorAt: (x) => (x < x0 + cell / 4 ? 0 : Math.ceil((x - x0) / cell)),
  };
}

/** What is held during event k: with what it makes, and what it still reads. */
function areaOf(model: Model, { held, peak }: Keeping, scale: Scale): string {
  const slant = Math.min(7, (scale.edge(1) - scale.edge(0)) / 4);
  const y = (amount: number) => BASE - (peak === 0 ? 0 : (amount / peak) * (BASE - TOP));
  let line = `M${scale.x0} ${BASE}`;
  let before = 0;
  for (let k = 0; k < model.events; k++) {
    const during = Math.max(held[k] as number, held[k + 1] as number);
    if (during !== before) {
      const x = scale.edge(k);
      const [from, to] = k === 0 ? [x, x + slant] : [x - slant, x + slant];
      line += `L${from.toFixed(1)} ${y(before).toFixed(1)}L${to.toFixed(1)} ${y(during).toFixed(1)}`;
      before = during;
    }
  }
  return `${line}L${(scale.x1 - slant).toFixed(1)} ${y(before).toFixed(1)}L${scale.x1} ${BASE}Z`;
}

function Ticks({ model, scale, at }: { model: Model; scale: Scale; at: number }) {
  const wide = scale.edge(1) - scale.edge(0) >= ROOM;
  return (
    <>
      {Array.from({ length: model.events }, (_, k) => {
        const phase = phaseAt(model, k);
        const state = `${phase === "backward" ? " is-back" : phase === "forward" ? "" : " is-other"}${k === at - 1 ? " is-now" : ""}${k >= at ? " is-ahead" : ""}`;
        const x = scale.middle(k);
        if (!wide) return <path key={k} class={`wg-keep-tick-mark${state}`} d={`M${x} ${BASE + 10}v16`} />;
        const symbol = tickSymbol(model, k);
        return (
          <g key={k} class={`wg-keep-tick${state}`} transform={`translate(${x - TICK / 2} ${BASE + 10})`}>
            <rect width={TICK} height={TICK} rx="6" />
            <text
              class={/[√∛]/.test(symbol) ? "wg-root" : undefined}
              x={TICK / 2}
              y={TICK / 2}
              style={{ fontSize: `${symbol.length > 3 ? 8 : symbol.length > 2 ? 9.5 : symbol.length > 1 ? 11 : 15}px` }}
            >
              {symbol.length > 4 ? `${symbol.slice(0, 3)}…` : symbol}
            </text>
          </g>
        );
      })}
    </>
  );
}

function tickSymbol(model: Model, event: number): string {
  const node = model.trace.events.node[event] as number;
  // Of a leaf's path the last part: "weight" of "model.0.weight".
  return node < 0 ? "·" : symbolOf(model, node).replace(/^.*\.(?=.)/, "") || text(model, model.trace.nodes.name[node]);
}

/** The width of an element, followed. */
export function useWidth(frame: { readonly current: Element | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    setWidth(element.clientWidth);
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, [frame]);
  return width;
}
