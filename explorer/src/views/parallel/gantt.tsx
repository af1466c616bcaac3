/** One lane a worker: what it did when, what is on the critical path, and the life of the chosen node. */
import { once } from "../../once";
import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { workerToken } from "../../draw/palette";
import { shownMicros } from "../../format";
import type { Surface } from "../canvas";
import { useCanvas } from "../canvas";
import { bars, type Timeline } from "../../panels/survey/timeline";
import type { Lives } from "./lives";

const LEFT = 34;
const RIGHT = 10;
const TOP = 4;
/** Rows that were chosen and stand no farther apart, in pixels, are framed together. */
const TOGETHER = 3;

/** Tones of bars: forward, backward, and both again on the critical path. */
const BACKWARD = 1;
const CRITICAL = 2;
const TONES = 4;
/** A longer chain of what held up the end would cover the lanes. */
const MOST_LINKS = 400;

interface Props {
  lives: Lives;
  /** Rows of what is chosen. */
  chosen: readonly number[];
  /** What held up the end, first to last. */
  held: readonly number[];
  now: Signal<number>;
  /** The clock is moved. */
  seek: (micros: number) => void;
  choose: (row: number) => void;
  /** What the pointer is on, -1 for nothing. */
  hover: (row: number) => void;
}

/** Pixels that a press may move and still choose a row. */
const STILL = 3;

export function Gantt({ lives, chosen, held, now, seek, choose, hover }: Props) {
  const lane = laneHeight(lives.workers);
  const box = useRef<HTMLDivElement>(null);
  const pressed = useRef<number | null>(null);
  const at = (event: MouseEvent) => {
    const rect = (box.current as HTMLDivElement).getBoundingClientRect();
    const inner = rect.width - LEFT - RIGHT;
    const time = Math.max(0, Math.min(1, (event.clientX - rect.left - LEFT) / inner)) * lives.micros;
    return { time, row: rowAt(lives, Math.floor((event.clientY - rect.top - TOP) / lane), time, (lives.micros / inner) * 3) };
  };
  const place = `calc(${LEFT}px + ${now.value / Math.max(1e-9, lives.micros)} * (100% - ${LEFT + RIGHT}px))`;
  return (
    <div
      class="wg-gantt"
      ref={box}
      style={{ height: `${2 * TOP + lane * lives.workers}px` }}
      role="slider"
      tabIndex={0}
      aria-label="Clock of the workers"
      aria-valuemin={0}
      aria-valuemax={Math.round(lives.micros)}
      aria-valuenow={Math.round(now.value)}
      aria-valuetext={`${shownMicros(now.value)} of ${shownMicros(lives.micros)}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        pressed.current = event.clientX;
      }}
      onPointerMove={(event) => {
        const { time, row } = at(event);
        hover(row);
        if (pressed.current !== null && (event.buttons & 1) === 1 && Math.abs(event.clientX - pressed.current) >= STILL) {
          pressed.current = Number.NEGATIVE_INFINITY;
          seek(time);
        }
      }}
      onPointerUp={(event) => {
        const moved = pressed.current === Number.NEGATIVE_INFINITY;
        pressed.current = null;
        if (moved) return;
        const { time, row } = at(event);
        seek(time);
        if (row >= 0) choose(row);
      }}
      onPointerLeave={() => hover(-1)}
    >
      <Chart lives={lives} chosen={chosen} held={held} />
      <div class="wg-gantt-late" style={{ left: place, right: `${RIGHT}px` }} />
      <div class="wg-gantt-now" style={{ left: place }} />
    </div>
  );
}

/** Painted when the schedule or the choice changes, not when the clock moves. */
function Chart({ lives, chosen, held }: Pick<Props, "lives" | "chosen" | "held">) {
  const canvas = useCanvas((surface) => paint(surface, lives, chosen, held));
  return <canvas ref={canvas} class="wg-gantt-chart" role="img" aria-label={`Work of ${lives.workers} worker${lives.workers === 1 ? "" : "s"}`} />;
}

function laneHeight(workers: number): number {
  return Math.max(12, Math.min(30, 200 / Math.max(1, workers)));
}

/** The row that a worker was at at a moment, or the nearest within reach; -1 for none. */
export function rowAt(lives: Lives, worker: number, time: number, reach: number): number {
  let best = -1;
  let nearest = reach;
  for (let k = 0; k < lives.count; k++) {
    if (lives.worker[k] !== worker) continue;
    const off = Math.max(0, (lives.start[k] as number) - time, time - (lives.end[k] as number));
    if (off < nearest || (off === 0 && nearest === 0)) {
      nearest = off;
      best = k;
    }
  }
  return best;
}

function paint(surface: Surface, lives: Lives, chosen: readonly number[], held: readonly number[]): void {
  const { context, width, colour } = surface;
  const inner = width - LEFT - RIGHT;
  const lane = laneHeight(lives.workers);
  const height = lane - 4;
  const line = lineOf(lives);
  const tone = toneOf(lives);
  const passes = [colour("op"), colour("grad")];
  context.save();
  context.translate(LEFT, TOP);
  context.font = `600 10.5px "JetBrains Mono", ui-monospace, monospace`;
  context.textAlign = "right";
  for (let w = 0; w < lives.workers; w++) {
    context.fillStyle = colour("sunken");
    context.fillRect(0, w * lane, inner, height);
    context.fillStyle = colour(workerToken(w));
    context.fillText(`w${w}`, -8, w * lane + height / 2 + 4);
  }
  for (const bar of bars(line, tone, TONES, inner)) {
    const [x, y, wide] = [bar.x0, bar.lane * lane, bar.x1 - bar.x0];
    const fill = wide > 4 ? wide - 1 : wide;
    context.globalAlpha = 0.25 + 0.6 * bar.share;
    context.fillStyle = colour(workerToken(bar.lane));
    context.fillRect(x, y, fill, height);
    // Which pass it is of is told along the head, the critical path along the foot.
    context.globalAlpha = 1;
    context.fillStyle = passes[bar.tone % CRITICAL] as string;
    context.fillRect(x, y, fill, 3);
    if (bar.tone >= CRITICAL) {
      context.fillStyle = colour("ink");
      context.fillRect(x, y + height - 4, wide, 4);
    }
  }
  context.globalAlpha = 1;
  if (held.length > 1 && held.length <= MOST_LINKS) chain(surface, lives, held, (t) => (t / lives.micros) * inner, lane);
  for (const span of spansOf(lives, chosen, (TOGETHER / inner) * lives.micros)) life(surface, span, (t) => (t / lives.micros) * inner, lane);
  context.restore();
}

/** A dashed line from each piece of work to the one that it held up. */
function chain({ context, colour }: Surface, lives: Lives, held: readonly number[], x: (t: number) => number, lane: number): void {
  context.strokeStyle = colour("bad");
  context.lineWidth = 1.5;
  context.setLineDash([4, 2]);
  context.beginPath();
  held.forEach((row, i) => {
    const y = (lives.worker[row] as number) * lane + (lane - 4) / 2;
    const [from, to] = [x(lives.start[row] as number), x(lives.end[row] as number)];
    if (i === 0) context.moveTo(from, y);
    else context.lineTo(from, y);
    context.lineTo(to, y);
  });
  context.stroke();
  context.setLineDash([]);
}

interface Span {
  worker: number;
  ready: number;
  start: number;
  end: number;
  done: number;
}

/** What rows say together: those that a worker ran one after the other, with no more between them than `apart`, are one. */
export function spansOf(lives: Lives, rows: readonly number[], apart: number): Span[] {
  const spans: Span[] = [];
  const order = [...rows].sort((a, b) => (lives.worker[a] as number) - (lives.worker[b] as number) || (lives.start[a] as number) - (lives.start[b] as number));
  for (const k of order) {
    const [worker, ready, start, end, done] = [lives.worker, lives.ready, lives.start, lives.end, lives.done].map((column) => column[k]) as [number, number, number, number, number];
    const last = spans[spans.length - 1];
    if (last !== undefined && last.worker === worker && start - last.end <= apart) Object.assign(last, { end, done });
    else spans.push({ worker, ready: Math.max(ready, last?.worker === worker ? last.end : 0), start, end, done });
  }
  return spans;
}

/** Wait as a thin line before, the run itself framed, handing on as a thin line after. */
function life({ context, colour }: Surface, span: Span, x: (t: number) => number, lane: number): void {
  const y = span.worker * lane;
  const middle = y + (lane - 4) / 2;
  context.strokeStyle = colour("input");
  context.lineWidth = 2;
  context.setLineDash([3, 3]);
  context.beginPath();
  context.moveTo(x(span.ready), middle);
  context.lineTo(x(span.start), middle);
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  context.moveTo(x(span.end), middle);
  context.lineTo(x(span.done), middle);
  context.stroke();
  const wide = Math.max(4, x(span.end) - x(span.start));
  context.strokeRect(x(span.start) - 1, y - 1, wide + 2, lane - 2);
}

const lineOf = once((lives: Lives): Timeline => {
  const share = (t: number) => t / Math.max(1e-9, lives.micros);
  return {
    from: lives.start.map(share),
    to: lives.end.map(share),
    mark: new Float64Array(0),
    threads: Array.from({ length: lives.workers }, (_, w) => w),
    lane: lives.worker,
    micros: lives.micros,
    breaks: [],
  };
});

/** Which of the tones each bar has. */
const toneOf = once((lives: Lives) => {
  const tone = new Uint8Array(lives.count);
  for (let k = 0; k < lives.count; k++) tone[k] = (lives.critical[k] === 1 ? CRITICAL : 0) + (lives.backward[k] === 1 ? BACKWARD : 0);
  return tone;
});
