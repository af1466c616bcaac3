/** The clock of a large run: who worked when, what was held, and where the cursor is. Drag it. */
import { useMemo, useRef } from "preact/hooks";
import { phaseAt } from "../../trace/model";
import { seek, useStore } from "../../state";
import { shownBytes } from "../../format";
import { useCanvas } from "../../views/canvas";
import { aliveOf } from "../../views/memory/alive";
import { paintClock, tonesOf } from "./chart";
import { findingAt } from "./actions";
import { eventsAt, timelineOf } from "./timeline";

const LEFT = 34;
const RIGHT = 14;

interface Props {
  ghost: ArrayLike<number> | null;
}

export function Clock({ ghost }: Props) {
  const store = useStore();
  const model = store.model.value;
  const line = timelineOf(model);
  const at = store.cursor.value;
  const place = line.mark[at] as number;
  const box = useRef<HTMLDivElement>(null);
  const goTo = (event: PointerEvent) => {
    const rect = (box.current as HTMLDivElement).getBoundingClientRect();
    store.playing.value = false;
    seek(store, eventsAt(line, (event.clientX - rect.left - LEFT) / (rect.width - LEFT - RIGHT) + 1e-9));
  };
  const bad = store.model.value.trace.findings[findingAt(store)]?.severity === "error";
  const alive = aliveOf(model);
  const held = at === 0 ? alive.atRest : (alive.total[at - 1] as number);
  const phase = at === 0 ? "start" : phaseAt(model, at - 1);
  return (
    <div
      class={`wg-clock${bad ? " is-bad" : ""}`}
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label="Clock"
      aria-valuemin={0}
      aria-valuemax={model.events}
      aria-valuenow={at}
      aria-valuetext={`step ${at} of ${model.events}, ${phase}, ${shownBytes(held)} held`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        goTo(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons === 1) goTo(event);
      }}
    >
      <Picture ghost={ghost} />
      <div class="wg-clock-late" style={{ left: `calc(${LEFT}px + ${place} * (100% - ${LEFT + RIGHT}px))`, right: `${RIGHT}px` }} />
      <div class="wg-clock-cursor" style={{ left: `calc(${LEFT}px + ${place} * (100% - ${LEFT + RIGHT}px))` }} />
    </div>
  );
}

/** Painted when the document, the size or the theme changes, not when the cursor does. */
function Picture({ ghost }: Props) {
  const model = useStore().model.value;
  const tones = useMemo(() => tonesOf(model), [model]);
  const canvas = useCanvas((surface) => paintClock(surface, { model, line: timelineOf(model), alive: aliveOf(model), tones, ghost, left: LEFT }));
  return <canvas ref={canvas} class="wg-clock-canvas" aria-hidden="true" />;
}
