/** What ranks do when: for each lane a row for what they compute and wait for, and below it one for what moves. */
import { useRef } from "preact/hooks";
import { shownMicros } from "../../format";
import { once } from "../../once";
import { bars } from "../../panels/survey/timeline";
import type { Ranks } from "../../trace/types";
import { useCanvas, type Surface } from "../canvas";
import { beside, KINDS, MOVES, partAt, rowOf, timelineOf, WAITS } from "./lanes";

const RIGHT = 10;
const TOP = 4;
const FOOT = 18;
/** Of a lane's height: what its ranks do, and what moves. */
const DOES = 0.58;
const MOVING = 0.27;
const FONT = `600 10.5px "JetBrains Mono", ui-monospace, monospace`;

interface Props {
  ranks: Ranks;
  chosen: number;
  choose: (part: number) => void;
  /** What the pointer is on, -1 for nothing. */
  hover: (part: number) => void;
}

export function RanksChart({ ranks, chosen, choose, hover }: Props) {
  const lane = laneHeight(ranks);
  const left = leftOf(ranks);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useCanvas((surface) => paint(surface, ranks, chosen));
  const at = (event: MouseEvent) => {
    const rect = (box.current as HTMLDivElement).getBoundingClientRect();
    const inner = rect.width - left - RIGHT;
    const y = (event.clientY - rect.top - TOP) / lane;
    const row = 2 * Math.floor(y) + (y - Math.floor(y) > DOES + 0.05 ? 1 : 0);
    return partAt(ranks, row, ((event.clientX - rect.left - left) / inner) * ranks.micros, (ranks.micros / inner) * 3);
  };
  return (
    <div
      class="wg-ranks-chart"
      ref={box}
      style={{ height: `${TOP + lane * ranks.lanes.length + FOOT}px` }}
      role="slider"
      tabIndex={0}
      aria-label="Parts of a step"
      aria-valuemin={0}
      aria-valuemax={Math.max(0, ranks.lane.length - 1)}
      aria-valuenow={Math.max(0, chosen)}
      aria-valuetext={chosen < 0 ? "none" : `${ranks.label[chosen]}, from ${shownMicros(ranks.start[chosen] as number)} to ${shownMicros(ranks.end[chosen] as number)}`}
      onMouseMove={(event) => hover(at(event))}
      onMouseLeave={() => hover(-1)}
      onClick={(event) => choose(at(event))}
      onKeyDown={(event) => {
        const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (by === 0) return;
        event.preventDefault();
        event.stopPropagation();
        choose(beside(ranks, chosen, by));
      }}
    >
      <canvas ref={canvas} />
    </div>
  );
}

function laneHeight(ranks: Ranks): number {
  return Math.max(26, Math.min(64, 320 / Math.max(1, ranks.lanes.length)));
}

/** Room for what the lanes are called. */
function leftOf(ranks: Ranks): number {
  return 16 + 6.5 * Math.max(...ranks.lanes.map((lane) => lane.ranks.length), 4);
}

const lineOf = once(timelineOf);

function paint(surface: Surface, ranks: Ranks, chosen: number): void {
  const { context, width, colour } = surface;
  const lane = laneHeight(ranks);
  const left = leftOf(ranks);
  const inner = width - left - RIGHT;
  const top = (row: number) => (row >> 1) * lane + (row % 2 === 0 ? 0 : lane * (DOES + 0.05));
  const high = (row: number) => lane * (row % 2 === 0 ? DOES : MOVING);
  context.save();
  context.translate(left, TOP);
  context.font = FONT;
  context.textBaseline = "middle";
  ranks.lanes.forEach(({ ranks: name }, i) => {
    context.fillStyle = colour("sunken");
    context.fillRect(0, top(2 * i), inner, high(2 * i));
    context.fillStyle = colour("muted");
    context.textAlign = "right";
    context.fillText(name, -8, top(2 * i) + high(2 * i) / 2);
  });
  const fills = [colour("kernel"), colour("param"), colour("bad")];
  for (const bar of bars(lineOf(ranks), ranks.kind, KINDS, inner)) {
    const [y, height, wide] = [top(bar.lane), high(bar.lane), bar.x1 - bar.x0];
    const fill = wide > 4 ? wide - 1 : wide;
    context.globalAlpha = 0.25 + 0.6 * bar.share;
    context.fillStyle = fills[bar.tone] as string;
    if (bar.tone === WAITS) hatch(context, bar.x0, y, fill, height);
    else context.fillRect(bar.x0, y, fill, height);
  }
  context.globalAlpha = 1;
  axis(surface, ranks, inner, lane * ranks.lanes.length);
  if (chosen >= 0) {
    const row = rowOf(ranks.lane[chosen] as number, ranks.kind[chosen] as number);
    const x = (t: number) => (t / Math.max(1e-9, ranks.micros)) * inner;
    const [from, to] = [x(ranks.start[chosen] as number), x(ranks.end[chosen] as number)];
    context.strokeStyle = colour("ink");
    context.lineWidth = 2;
    context.strokeRect(from - 1, top(row) - 1, Math.max(4, to - from) + 2, high(row) + 2);
    if (ranks.kind[chosen] === MOVES) {
      context.setLineDash([3, 3]);
      context.beginPath();
      for (const at of [from, to]) {
        context.moveTo(at, top(row - 1));
        context.lineTo(at, top(row));
      }
      context.stroke();
      context.setLineDash([]);
    }
  }
  context.restore();
}

/** Waiting is told by lines, not by a colour alone. */
function hatch(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  const alpha = context.globalAlpha;
  context.globalAlpha = 0.3 * alpha;
  context.fillRect(x, y, width, height);
  context.globalAlpha = alpha;
  for (let at = x - height; at < x + width; at += 5) {
    context.beginPath();
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
    context.lineTo(at + height + 1.5, y);
    context.lineTo(at + 1.5, y + height);
    context.fill();
  }
  context.restore();
}

function axis({ context, colour }: Surface, ranks: Ranks, inner: number, y: number): void {
  const ticks = Math.max(1, Math.floor(inner / 140));
  context.fillStyle = colour("muted");
  context.textBaseline = "top";
  for (let i = 0; i <= ticks; i++) {
    context.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
    context.fillText(i === 0 ? "0" : shownMicros((ranks.micros * i) / ticks), (inner * i) / ticks, y + 4);
  }
}
