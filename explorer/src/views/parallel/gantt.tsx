/** One lane a worker: what it did when, what is on the critical path, and the life of the chosen node. */
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

interface Props {
  lives: Lives;
  /** Rows of what is chosen. */
  chosen: readonly number[];
  choose: (row: number) => void;
}

export function Gantt({ lives, chosen, choose }: Props) {
  const canvas = useCanvas((surface) => paint(surface, lives, chosen));
  const lane = laneHeight(lives.workers);
  const find = (event: MouseEvent) => {
    const el = canvas.current;
    if (el === null) return;
    const box = el.getBoundingClientRect();
    const worker = Math.floor((event.clientY - box.top - TOP) / lane);
    const time = ((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)) * lives.micros;
    const row = rowAt(lives, worker, time, (lives.micros / (box.width - LEFT - RIGHT)) * 3);
    if (row >= 0) choose(row);
  };
  return (
    <canvas
      ref={canvas}
      class="wg-gantt"
      style={{ height: `${2 * TOP + lane * lives.workers}px` }}
      role="img"
      aria-label={`Work of ${lives.workers} worker${lives.workers === 1 ? "" : "s"}`}
      onClick={find}
    />
  );
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

function paint(surface: Surface, lives: Lives, chosen: readonly number[]): void {
  const { context, width, colour } = surface;
  const inner = width - LEFT - RIGHT;
  const lane = laneHeight(lives.workers);
  const height = lane - 4;
  const line = lineOf(lives);
  const tone = Uint8Array.from({ length: lives.count }, (_, k) => (lives.critical[k] === 1 ? CRITICAL : 0) + (lives.backward[k] === 1 ? BACKWARD : 0));
  const fills = [colour("op"), colour("grad")];
  context.save();
  context.translate(LEFT, TOP);
  context.font = `10.5px "JetBrains Mono", ui-monospace, monospace`;
  context.textAlign = "right";
  for (let w = 0; w < lives.workers; w++) {
    context.fillStyle = colour("sunken");
    context.fillRect(0, w * lane, inner, height);
    context.fillStyle = colour("muted");
    context.fillText(`w${w}`, -8, w * lane + height / 2 + 4);
  }
  for (const bar of bars(line, tone, TONES, inner)) {
    const [x, y, wide] = [bar.x0, bar.lane * lane, bar.x1 - bar.x0];
    const critical = bar.tone >= CRITICAL;
    context.globalAlpha = (critical ? 1 : 0.75) * (0.3 + 0.7 * bar.share);
    context.fillStyle = fills[bar.tone % CRITICAL] as string;
    context.fillRect(x, y, wide > 4 ? wide - 1 : wide, height);
    if (critical) {
      // The critical path is told by a bar along the lane's foot, not by hue.
      context.globalAlpha = 1;
      context.fillStyle = colour("ink");
      context.fillRect(x, y + height - 4, wide, 4);
    }
  }
  context.globalAlpha = 1;
  for (const span of spansOf(lives, chosen, (TOGETHER / inner) * lives.micros)) life(surface, span, (t) => (t / lives.micros) * inner, lane);
  context.restore();
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

function lineOf(lives: Lives): Timeline {
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
}
