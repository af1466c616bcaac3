/** Fit a line: the data with the line, the loss seen from above, and the graph behind both. */
import { num } from "../../../trace/decode";
import { meanSquare } from "../../../engine/bowl";
import { bowlLevels, contour } from "../../../plot/contours";
import { extent, linear } from "../../../plot/scale";
import { fixed, plainNumber, signedNumber } from "../../../plot/numbers";
import { useSize, type Size } from "../../../plot/size";
import { GraphPanel } from "./graph_panel";
import { Card } from "../parts";
import type { Frame, LineFrame, LineScene, Scene } from "../messages";
import { edit, type Play } from "../session";
import type { Num } from "../../../trace/types";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

/** Earlier lines that are still seen, faintly. */
const TRAIL = 4;
/** Runs of up to this many steps show each of them on the path. */
const DOTTED = 60;
const BANDS = 9;

export interface LineProps {
  readonly scene: Scene<LineScene>;
  readonly frame: Frame<LineFrame>;
}

export function LineCenter({ play, scene, frame }: LineProps & { play: Play }) {
  return (
    <div class="wg-play-line">
      <Card title="The data and the line" aside={<span class="wg-play-equation">{equation(num(frame.values.now[0]), num(frame.values.now[1]))}</span>}>
        <DataPlot scene={scene} frame={frame} />
      </Card>
      <Card title="The loss, seen from above" aside="drag the dot">
        <LossMap play={play} scene={scene} frame={frame} />
      </Card>
      <GraphPanel step={frame.step} note="same two lanes: values out, gradients home" />
    </div>
  );
}

interface Point {
  readonly step: number;
  readonly w: number;
  readonly b: number;
}

/** The parameters at the steps that are told of, up to the present one. */
function pathOf({ history, step }: Frame): Point[] {
  return history.steps
    .map((at, i) => ({ step: at, w: num(history.w?.[i] ?? "nan"), b: num(history.b?.[i] ?? "nan") }))
    .filter((point) => point.step <= step && Number.isFinite(point.w) && Number.isFinite(point.b));
}

const MARGIN = { left: 42, right: 14, top: 38, bottom: 34 };

function DataPlot({ scene, frame }: LineProps) {
  const [element, size] = useSize<HTMLDivElement>();
  return (
    <div class="wg-play-plot" ref={element}>
      {size.width > 0 && <DataPicture scene={scene} frame={frame} size={size} />}
    </div>
  );
}

function DataPicture({ scene, frame, size }: LineProps & { size: Size }) {
  const { x, y } = scene.values;
  const { width, height } = size;
  const [x0, x1] = padded(extent(x) ?? [-1, 1], 0.06);
  const [y0, y1] = padded(extent([...y, 0]) ?? [0, 1], 0.08);
  const across = linear(x0, x1, MARGIN.left, width - MARGIN.right, 5);
  const up = linear(y0, y1, height - MARGIN.bottom, MARGIN.top, 5);
  const w = num(frame.values.now[0]);
  const b = num(frame.values.now[1]);
  const earlier = pathOf(frame).slice(-TRAIL - 1, -1);
  const line = (slope: number, start: number) => {
    const [left, right] = [slope * x0 + start, slope * x1 + start];
    return { x1: across(x0), y1: bounded(up(left)), x2: across(x1), y2: bounded(up(right)) };
  };
  const words = `${x.length} points and the line ${equation(w, b)}; loss ${plainNumber(num(frame.history.loss?.[0] ?? "nan"))} at the start.`;
  return (
    <svg width={width} height={height} role="img" aria-label={words}>
      {up.ticks.map((tick) => (
        <g key={tick} class="wg-play-tick">
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={up(tick)} y2={up(tick)} />
          <text x={MARGIN.left - 8} y={up(tick)} text-anchor="end" dy="0.35em">
            {plainNumber(tick)}
          </text>
        </g>
      ))}
      {across.ticks.map((tick) => (
        <text key={tick} class="wg-play-tick-text" x={across(tick)} y={height - 12} text-anchor="middle">
          {plainNumber(tick)}
        </text>
      ))}
      {x.map((at, i) => (
        <line key={i} class="wg-play-residual" x1={across(at)} x2={across(at)} y1={up(y[i] as number)} y2={bounded(up(w * at + b))} />
      ))}
      {earlier.map((point, i) => (
        <line key={point.step} class="wg-play-fit" style={{ opacity: 0.1 + 0.3 * ((i + 1) / (earlier.length + 1)), strokeWidth: 1.6 }} {...line(point.w, point.b)} />
      ))}
      {Number.isFinite(w) && Number.isFinite(b) && <line class="wg-play-fit" {...line(w, b)} />}
      {x.map((at, i) => (
        <circle key={i} class="wg-play-point" cx={across(at)} cy={up(y[i] as number)} r={5} />
      ))}
    </svg>
  );
}

/** Lines that leave the picture end where browsers still draw them well. */
function bounded(pixel: number): number {
  return Math.max(-1e4, Math.min(1e4, pixel));
}

function padded([low, high]: readonly [number, number], share: number): [number, number] {
  const room = (high - low || 1) * share;
  return [low - room, high + room];
}

function equation(w: number, b: number): string {
  return `${fixed(w)}x ${b < 0 ? "−" : "+"} ${fixed(Math.abs(b))}`;
}

// -- the loss from above

function LossMap({ play, scene, frame }: LineProps & { play: Play }) {
  const [element, size] = useSize<HTMLDivElement>();
  const area = useMemo(() => areaOf(scene.values, pathOf(frame), [frame.values.now, frame.values.next]), [scene, frame]);
  const key = `${area.w.join()} ${area.b.join()}`;
  const kept = useMemo(() => area, [key]);
  const hills = useMemo(() => <Hills scene={scene} area={kept} size={size} />, [scene, kept, size.width, size.height]);
  return (
    <div class="wg-play-plot is-whole" ref={element}>
      {size.width > 0 && (
        <>
          {hills}
          <Walk play={play} scene={scene} frame={frame} area={kept} size={size} />
        </>
      )}
    </div>
  );
}

/** The part of the plane that the map shows. */
interface Area {
  readonly w: readonly [number, number];
  readonly b: readonly [number, number];
}

/** How often the map may grow to twice its size: beyond that a path is a line through it anyway. */
const DOUBLINGS = 40;

/** The start and the lowest point with room around them; where the path leaves it, twice as much, and twice again. */
export function areaOf({ best, start }: LineScene, path: readonly { w: number; b: number }[], more: readonly (readonly [Num, Num])[]): Area {
  const seen = [...path, ...more.map(([w, b]) => ({ w: num(w), b: num(b) }))].filter(({ w, b }) => Number.isFinite(w) && Number.isFinite(b));
  const half = [0, 1].map((i) => 1.3 * Math.max(Math.abs((start[i] as number) - (best[i] as number)), 3)) as [number, number];
  const reach = Math.max(1, ...seen.map(({ w, b }) => Math.max(Math.abs(w - best[0]) / half[0], Math.abs(b - best[1]) / half[1])));
  const times = 2 ** Math.min(DOUBLINGS, Math.ceil(Math.log2(reach / 1.25)));
  const side = (i: 0 | 1): [number, number] => [best[i] - half[i] * Math.max(1, times), best[i] + half[i] * Math.max(1, times)];
  return { w: side(0), b: side(1) };
}

function scales({ w, b }: Area, { width, height }: Size) {
  return { across: linear(w[0], w[1], 0, width, 6), up: linear(b[0], b[1], height, 0, 6) };
}

/** Points a side at which the loss is computed. */
const GRID = 72;

/** The bands between levels, deeper towards the bottom of the bowl. They change with the data and the area only. */
function Hills({ scene, area, size }: { scene: Scene<LineScene>; area: Area; size: Size }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { x, y, least } = scene.values;
  const along = ([from, to]: readonly [number, number], k: number) => from + (k / (GRID - 1)) * (to - from);
  const grid = useMemo(() => Float64Array.from({ length: GRID * GRID }, (_, i) => meanSquare(x, y, along(area.w, i % GRID), along(area.b, Math.floor(i / GRID)))), [scene, area]);
  const levels = useMemo(() => bowlLevels(num(least), (extent(grid)?.[1] ?? 1) * 0.62, BANDS), [grid]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const { width, height } = size;
    const image = context.createImageData(width, height);
    const colour = rgb(getComputedStyle(canvas.current as Element).getPropertyValue("--wg-grad"));
    for (let j = 0; j < height; j++) {
      const r = (1 - (j + 0.5) / height) * (GRID - 1);
      for (let i = 0; i < width; i++) {
        const value = between(grid, GRID, ((i + 0.5) / width) * (GRID - 1), r);
        const inside = levels.reduce((count, level) => count + (value < level ? 1 : 0), 0);
        image.data.set([...colour, inside * 6], 4 * (j * width + i));
      }
    }
    context.putImageData(image, 0, 0);
  });
  const { across, up } = scales(area, size);
  const lines = useMemo(
    () => levels.map((level) => contour(grid, GRID, GRID, level, (c) => across(along(area.w, c)), (r) => up(along(area.b, r)))),
    [grid, size.width, size.height],
  );
  return (
    <>
      <canvas ref={canvas} width={size.width} height={size.height} aria-hidden="true" />
      <svg width={size.width} height={size.height} aria-hidden="true">
        {lines.map((d, i) => (
          <path key={i} class="wg-play-contour" d={d} />
        ))}
      </svg>
    </>
  );
}

/** The grid's value between its points. */
function between(grid: Float64Array, n: number, c: number, r: number): number {
  const [c0, r0] = [Math.max(0, Math.min(n - 2, Math.floor(c))), Math.max(0, Math.min(n - 2, Math.floor(r)))];
  const [s, t] = [c - c0, r - r0];
  const at = (dc: number, dr: number) => grid[(r0 + dr) * n + c0 + dc] as number;
  return (at(0, 0) * (1 - s) + at(1, 0) * s) * (1 - t) + (at(0, 1) * (1 - s) + at(1, 1) * s) * t;
}

function rgb(colour: string): [number, number, number] {
  const hex = colour.trim().slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)) as [number, number, number];
}

function Walk({ play, scene, frame, area, size }: LineProps & { play: Play; area: Area; size: Size }) {
  const { across, up } = scales(area, size);
  // While it is dragged the map stands still under the pointer, and only where it is let go of counts.
  const [dragged, setDragged] = useState<readonly [number, number] | null>(null);
  const drag = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).ownerSVGElement?.getBoundingClientRect();
    if (box !== undefined) setDragged([across.inverse(event.clientX - box.left), up.inverse(event.clientY - box.top)]);
  };
  const drop = () => {
    if (dragged === null) return;
    setDragged(null);
    dragged.forEach((value, i) => edit(play, i, 0, Number(value.toPrecision(4))));
  };
  const { width, height } = size;
  const path = pathOf(frame);
  const [w, b] = frame.values.now.map(num) as [number, number];
  const [nextW, nextB] = frame.values.next.map(num) as [number, number];
  const [bestW, bestB] = scene.values.best;
  const at = (point: { w: number; b: number }) => [bounded(across(point.w)), bounded(up(point.b))] as const;
  const [x, y] = at({ w, b });
  const [toX, toY] = at({ w: nextW, b: nextB });
  const there = Number.isFinite(w) && Number.isFinite(b);
  const [dotX, dotY] = dragged === null ? [x, y] : at({ w: dragged[0], b: dragged[1] });
  const moves = there && dragged === null && Math.hypot(toX - x, toY - y) > 6;
  const words =
    `The loss over w and b: the run stands at w ${plainNumber(w)}, b ${plainNumber(b)}, ` +
    `the next step goes to w ${plainNumber(nextW)}, b ${plainNumber(nextB)}; the lowest point is at w ${fixed(bestW)}, b ${fixed(bestB)}.`;
  return (
    <svg width={width} height={height} role="img" aria-label={words}>
      <defs>
        <marker id="wg-play-arrow" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="4.2" markerHeight="4.2" orient="auto-start-reverse">
          <path d="M0 0.6L10 5L0 9.4z" class="wg-play-arrow-head" />
        </marker>
      </defs>
      {across.ticks.filter((t) => across(t) > 40 && across(t) < width - 40).map((tick) => (
        <text key={tick} class="wg-play-tick-text" x={across(tick)} y={height - 12} text-anchor="middle">
          {plainNumber(tick)}
        </text>
      ))}
      {up.ticks.filter((t) => up(t) > 62 && up(t) < height - 36).map((tick) => (
        <text key={tick} class="wg-play-tick-text" x={12} y={up(tick)} dy="0.35em">
          {plainNumber(tick)}
        </text>
      ))}
      <text class="wg-play-axis" x={width - 20} y={height - 10} text-anchor="middle">
        w
      </text>
      <text class="wg-play-axis" x={16} y={52}>
        b
      </text>
      <path class="wg-play-best" d={`M${across(bestW) - 7} ${up(bestB)}h14M${across(bestW)} ${up(bestB) - 7}v14`} />
      <text class="wg-play-best-text" x={across(bestW) - 8} y={up(bestB) - 10} text-anchor="end">
        {fixed(bestW)}, {fixed(bestB)}
      </text>
      <polyline class="wg-play-path" points={path.map((point) => at(point).join(",")).join(" ")} />
      {path.length <= DOTTED &&
        path.slice(0, -1).map((point) => {
          const [cx, cy] = at(point);
          return <circle key={point.step} class="wg-play-stop" cx={cx} cy={cy} r={3.6} />;
        })}
      {moves && <line class="wg-play-arrow" x1={x} y1={y} x2={toX} y2={toY} marker-end="url(#wg-play-arrow)" />}
      {there && <circle class="wg-play-here" cx={dotX} cy={dotY} r={7} />}
      {there && (
        <circle
          class="wg-play-grip"
          cx={dotX}
          cy={dotY}
          r={18}
          onPointerDown={(event) => {
            (event.currentTarget as Element).setPointerCapture(event.pointerId);
            drag(event);
          }}
          onPointerMove={(event) => dragged !== null && drag(event)}
          onPointerUp={drop}
          onPointerCancel={() => setDragged(null)}
        />
      )}
      {dragged !== null && (
        <text class="wg-play-best-text is-dragged" x={dotX} y={dotY - 16} text-anchor="middle">
          {fixed(dragged[0])}, {fixed(dragged[1])}
        </text>
      )}
    </svg>
  );
}

// -- the arithmetic of the step

export function LineArithmetic({ scene, frame }: LineProps) {
  const rate = Number(frame.options.rate);
  const { now, next, direction } = frame.values;
  const of = frame.options.method === "plain" ? "gradient" : frame.options.method === "momentum" ? "velocity" : "Adam’s direction";
  const rows = (["w", "b"] as const).map((name, i) => ({ name, now: num(now[i] as never), next: num(next[i] as never), way: num(direction[i] as never) }));
  return (
    <section class="wg-section">
      <h2>This step</h2>
      {rows.map((row) => (
        <p class="wg-play-sum" key={row.name}>
          <i class="wg-math">{row.name}</i> <span>{fixed(row.now)}</span> <span class="wg-muted">−</span> <span>{plainNumber(rate)}</span>{" "}
          <span class="wg-muted">×</span> <b class="wg-grad">{signedNumber(row.way)}</b> <span class="wg-muted">=</span> <span>{fixed(row.next)}</span>
        </p>
      ))}
      <p class="wg-play-note">
        now − step size × <span class="wg-grad">{of}</span> = next
      </p>
      <Heading scene={scene} frame={frame} />
    </section>
  );
}

function Heading({ scene, frame }: LineProps) {
  const limit = frame.values.limit === null ? null : num(frame.values.limit);
  return (
    <dl class="wg-play-facts">
      <dt>w, heading for {fixed(scene.values.best[0])}</dt>
      <dd>{fixed(num(frame.values.now[0]))}</dd>
      <dt>b, heading for {fixed(scene.values.best[1])}</dt>
      <dd>{fixed(num(frame.values.now[1]))}</dd>
      <dt>curvature λ</dt>
      <dd>{fixed(num(scene.values.curvature))}</dd>
      <dt>{limit === null ? "limit of the step size" : frame.options.method === "momentum" ? "limit, 2(1 + β)/λ" : "limit, 2/λ"}</dt>
      <dd>{limit === null ? "none" : fixed(limit)}</dd>
      <dt>step</dt>
      <dd>
        {frame.step} of {frame.horizon}
      </dd>
    </dl>
  );
}
