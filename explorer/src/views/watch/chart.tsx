/** Curves over the steps of a training. */
import { extent, linear, logarithmic, type Scale } from "../../plot/scale";
import { plainNumber } from "../../plot/numbers";
import { useSize, type Size } from "../../plot/size";

export interface Curve {
  readonly label: string;
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
  /** Hue never stands alone: curves differ in width, dashes or dots too. */
  readonly look: "faint" | "ink" | "dots" | "grad" | `other-${0 | 1 | 2 | 3}`;
}

export interface Band {
  readonly x: ArrayLike<number>;
  readonly low: ArrayLike<number>;
  readonly high: ArrayLike<number>;
}

interface ChartProps {
  readonly curves: readonly Curve[];
  readonly band?: Band;
  readonly log: boolean;
  readonly label: string;
}

const MARGIN = { left: 52, right: 16, top: 10, bottom: 24 };

export function Chart(props: ChartProps) {
  const [element, size] = useSize<HTMLDivElement>();
  return (
    <div class="wg-watch-chart" ref={element}>
      {size.width > 0 && <Drawing {...props} size={size} />}
    </div>
  );
}

function Drawing({ curves, band, log, label, size: { width, height } }: ChartProps & { size: Size }) {
  const usable = (value: number) => Number.isFinite(value) && (!log || value > 0);
  const all = curves.flatMap(({ y }) => Array.from(y).filter(usable));
  const last = Math.max(1, ...curves.map(({ x }) => x[x.length - 1] ?? 0));
  const across = linear(0, last, MARGIN.left, width - MARGIN.right, Math.max(2, Math.floor(width / 110)));
  const up = vertical(log, all, height);
  const words = curves
    .map(({ label: name, y }) => `${name} ${y.length > 0 ? plainNumber(y[y.length - 1] as number) : "unknown"}`)
    .join(", ");
  return (
    <svg width={width} height={height} role="img" aria-label={`${label}: ${words}.`}>
      {up.ticks.map((tick) => (
        <g key={tick} class="wg-watch-tick">
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={up(tick)} y2={up(tick)} />
          <text x={MARGIN.left - 8} y={up(tick)} text-anchor="end" dy="0.35em">
            {plainNumber(tick)}
          </text>
        </g>
      ))}
      {across.ticks.map((tick) => (
        <text key={tick} class="wg-watch-tick-text" x={across(tick)} y={height - 6} text-anchor={tick === 0 ? "start" : "middle"}>
          {tick.toLocaleString("en")}
        </text>
      ))}
      <clipPath id={`wg-clip-${label}`}>
        <rect x={MARGIN.left} y={MARGIN.top - 4} width={width - MARGIN.left - MARGIN.right + 6} height={height - MARGIN.top - MARGIN.bottom + 8} />
      </clipPath>
      <g clip-path={`url(#wg-clip-${label})`}>
        {band !== undefined && <path class="wg-watch-band" d={bandPath(band, across, up, usable)} />}
        {curves.map((curve) =>
          curve.look === "dots" ? (
            <g key={curve.label} class="wg-watch-curve is-dots">
              <path d={path(curve, across, up, usable)} />
              {Array.from(curve.y, (y, i) => usable(y) && <circle key={i} cx={across(curve.x[i] as number)} cy={up(y)} r={3.2} />)}
            </g>
          ) : (
            <path key={curve.label} class={`wg-watch-curve is-${curve.look} ${curve.y.length === 1 ? "is-point" : ""}`} d={path(curve, across, up, usable)} />
          ),
        )}
      </g>
    </svg>
  );
}

/** A line with a gap where a value is no number; a point where there is one value. */
function path({ x, y }: Curve, across: Scale, up: Scale, usable: (value: number) => boolean): string {
  let [text, pen] = ["", "M"];
  for (let i = 0; i < y.length; i++) {
    const value = y[i] as number;
    if (!usable(value)) {
      pen = "M";
      continue;
    }
    text += `${pen}${across(x[i] as number).toFixed(1)} ${up(value).toFixed(1)}`;
    pen = "L";
  }
  if (y.length === 1 && text !== "") text += "h0.01";
  return text;
}

function bandPath({ x, low, high }: Band, across: Scale, up: Scale, usable: (value: number) => boolean): string {
  const there = Array.from(x, (_, i) => i).filter((i) => usable(low[i] as number) && usable(high[i] as number));
  if (there.length < 2) return "";
  const point = (i: number, y: number) => `${across(x[i] as number).toFixed(1)} ${up(y).toFixed(1)}`;
  const over = there.map((i) => point(i, high[i] as number));
  const under = there.reverse().map((i) => point(i, low[i] as number));
  return `M${over.join("L")}L${under.join("L")}Z`;
}

function vertical(log: boolean, values: readonly number[], height: number): Scale {
  const [low, high] = [height - MARGIN.bottom, MARGIN.top];
  const [least, most] = extent(values) ?? [log ? 0.1 : 0, 1];
  if (log) return logarithmic(least / 1.15, most * 1.15, low, high);
  const room = (most - least) * 0.06 || Math.abs(most) * 0.1 || 1;
  return linear(least >= 0 && least < most / 2 ? 0 : least - room, most + room, low, high, Math.max(2, Math.floor(height / 60)));
}
