/** Series over the steps, on a logarithmic scale where they are losses: what has been, and dashed what is known to come. */
import { optionalNum } from "../../trace/decode";
import { extent, linear, logarithmic } from "../../plot/scale";
import { fixed, plainNumber } from "../../plot/numbers";
import { useSize, type Size } from "../../plot/size";
import type { Frame } from "./messages";

export interface Curve {
  readonly name: string;
  readonly label: string;
  /** Hue never stands alone: a second curve is thinner and violet, and both are labelled. */
  readonly look: "first" | "second";
}

export interface Guide {
  readonly value: number;
  readonly label: string;
}

export interface ChartProps {
  readonly frame: Frame;
  readonly curves: readonly Curve[];
  readonly guide?: Guide;
  readonly scale: "logarithmic" | "share";
  readonly label: string;
}

const MARGIN = { left: 44, right: 12, top: 10, bottom: 10 };

export function Chart(props: ChartProps) {
  const [element, size] = useSize<HTMLDivElement>();
  return (
    <div class={`wg-play-chart is-${props.scale}`} ref={element}>
      {size.width > 0 && <Drawing {...props} size={size} />}
    </div>
  );
}

function Drawing({ frame, curves, guide, scale, label, size }: ChartProps & { size: Size }) {
  const { width, height } = size;
  const { steps } = frame.history;
  const series = curves.map(({ name }) => (frame.history[name] ?? []).map((value) => optionalNum(value) ?? Number.NaN));
  const across = linear(0, Math.max(1, frame.horizon), MARGIN.left, width - MARGIN.right);
  const up = vertical(scale, series.flat(), guide, height);
  const pieces = (values: readonly number[], from: number, to: number) =>
    values
      .map((value, i) => ({ step: steps[i] as number, value }))
      .filter(({ step, value }) => step >= from && step <= to && Number.isFinite(value) && (scale === "share" || value > 0))
      .map(({ step, value }) => `${across(step).toFixed(1)},${up(value).toFixed(1)}`)
      .join(" ");
  const here = steps.indexOf(frame.step);
  const now = series.map((values) => values[here] ?? Number.NaN);
  const words = `${label} at step ${frame.step}: ${curves.map((curve, i) => `${curve.label} ${plainNumber(now[i] as number)}`).join(", ")}.`;
  return (
    <svg width={width} height={height} role="img" aria-label={words}>
      {up.ticks.map((tick) => (
        <g key={tick} class="wg-play-tick">
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={up(tick)} y2={up(tick)} />
          <text x={MARGIN.left - 8} y={up(tick)} text-anchor="end" dy="0.35em">
            {scale === "share" ? `${Math.round(tick * 100)}%` : plainNumber(tick)}
          </text>
        </g>
      ))}
      {guide !== undefined && (
        <g class="wg-play-guide">
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={up(guide.value)} y2={up(guide.value)} />
          <text x={width - MARGIN.right} y={up(guide.value) + (up(guide.value) + 20 > height ? -6 : 15)} text-anchor="end">
            {guide.label}
          </text>
        </g>
      )}
      {curves.map((curve, i) => (
        <g key={curve.name} class={`wg-play-curve is-${curve.look}`}>
          <polyline class="is-known" points={pieces(series[i] as number[], frame.step, Number.POSITIVE_INFINITY)} />
          <polyline points={pieces(series[i] as number[], 0, frame.step)} />
        </g>
      ))}
      {curves.map((curve, i) => {
        const value = now[i] as number;
        if (!Number.isFinite(value)) return null;
        const [x, y] = [across(frame.step), up(value)];
        const left = x > width - 80;
        return (
          <g key={curve.name} class={`wg-play-now is-${curve.look}`}>
            <circle cx={x} cy={y} r={5} />
            {curves.length === 1 && (
              <text x={left ? x - 8 : x + 10} y={Math.max(14, y - 9)} text-anchor={left ? "end" : "start"}>
                {scale === "share" ? `${Math.round(value * 100)}%` : fixed(value)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

function vertical(scale: ChartProps["scale"], values: readonly number[], guide: Guide | undefined, height: number) {
  const [low, high] = [height - MARGIN.bottom, MARGIN.top];
  if (scale === "share") return linear(0, 1, low, high, 2);
  const positive = [...values, ...(guide === undefined ? [] : [guide.value])].filter((value) => value > 0);
  const [least, most] = extent(positive) ?? [0.1, 10];
  // Whole powers of ten, and room for the guide's words below it; up to what a number can be, for a loss that diverges.
  return logarithmic(Math.min(least / 1.8, most / 20), Math.min(most * 1.3, Number.MAX_VALUE), low, high);
}
