/** Small charts, one for each module: a curve over the steps, a histogram. */
import { middleCut, shownNumber } from "../../format";
import { logarithmic } from "../../plot/scale";
import type { Activation } from "./messages";

const [WIDTH, HEIGHT] = [160, 48];

/** One curve for each name, on one logarithmic scale, so that they can be compared. */
export function SmallCurves({ names, steps, values }: { names: readonly string[]; steps: Float32Array; values: readonly Float32Array[] }) {
  const usable = (x: number) => Number.isFinite(x) && x > 0;
  const all = values.flatMap((series) => Array.from(series).filter(usable));
  if (all.length === 0) return <p class="wg-muted">No gradients were there to be looked at.</p>;
  const [least, most] = all.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Number.POSITIVE_INFINITY, 0]);
  const up = logarithmic(least / 1.2, most * 1.2, HEIGHT - 2, 2);
  const last = Math.max(1, steps[steps.length - 1] ?? 1);
  return (
    <div class="wg-watch-grid">
      {names.map((name, i) => {
        const series = values[i] as Float32Array;
        const points = Array.from(series, (y, k) => [((steps[k] as number) / last) * WIDTH, y] as const).filter(([, y]) => usable(y));
        const path = points.map(([x, y]) => `${x.toFixed(1)} ${up(y).toFixed(1)}`).join("L");
        const [end, now] = points.at(-1) ?? [0, Number.NaN];
        const bad = series.length > 0 && !Number.isNaN(series[series.length - 1] as number) && !Number.isFinite(series[series.length - 1] as number);
        return (
          <figure key={name} title={name}>
            <figcaption>
              <span>{middleCut(name, 20)}</span>
              <b class={bad ? "wg-bad" : ""}>{bad ? "∞" : Number.isNaN(now) ? "–" : shownNumber(now, 2)}</b>
            </figcaption>
            <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${shownNumber(now, 2)}`}>
              {path !== "" && <path class="wg-watch-curve is-grad" vector-effect="non-scaling-stroke" d={`M${path}`} />}
              {path !== "" && <path class="wg-watch-curve is-end" vector-effect="non-scaling-stroke" d={`M${end.toFixed(1)} ${up(now).toFixed(1)}h0.01`} />}
            </svg>
          </figure>
        );
      })}
    </div>
  );
}

export function Histogram({ activation: { name, counts, low, high, mean, std, zeros, bad } }: { activation: Activation }) {
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const wide = WIDTH / counts.length;
  const bars = Array.from(counts, (n, i) => (n === 0 ? "" : `M${(i * wide).toFixed(2)} ${HEIGHT}v${(-(n / most) * (HEIGHT - 2)).toFixed(2)}h${(wide * 0.92).toFixed(2)}V${HEIGHT}z`)).join("");
  const words = `mean ${shownNumber(mean, 2)}, deviation ${shownNumber(std, 2)}`;
  const faults = [zeros > 0.005 ? `${Math.round(100 * zeros)}% zeros` : "", bad > 0 ? `${bad} not finite` : ""].filter((word) => word !== "").join(", ");
  return (
    <figure title={`${name}: ${words}${faults === "" ? "" : `, ${faults}`}`}>
      <figcaption>
        <span>{middleCut(name, 20)}</span>
        <b class={bad > 0 ? "wg-bad" : "wg-muted"}>{faults}</b>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Distribution of ${name}: ${words}`}>
        <path class="wg-watch-bars" d={bars} />
      </svg>
      <small>
        <span>{shownNumber(low, 2)}</span>
        <span>
          {shownNumber(mean, 2)} ± {shownNumber(std, 2)}
        </span>
        <span>{shownNumber(high, 2)}</span>
      </small>
    </figure>
  );
}
