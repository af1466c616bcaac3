/** Small charts: how much faster with more workers, and how wide the graph is at each level. */
import { once } from "../../once";
import { shownNumber } from "../../format";
import { MOST_WORKERS } from "../../state";
import type { Speedup } from "./simulate";

const WIDTH = 300;
const HEIGHT = 150;
const PAD = { left: 40, right: 12, top: 10, bottom: 24 };

export function SpeedupChart({ rows, chosen, choose }: { rows: readonly Speedup[]; chosen: number; choose: (workers: number) => void }) {
  const most = Math.max(1.2, ...rows.map((row) => Math.max(row.speedup, Math.min(row.bound, 1.25 * Math.max(...rows.map((r) => r.speedup))))));
  const x = (workers: number) => PAD.left + ((workers - 1) / Math.max(1, MOST_WORKERS - 1)) * (WIDTH - PAD.left - PAD.right);
  const y = (times: number) => HEIGHT - PAD.bottom - (Math.min(times, most) / most) * (HEIGHT - PAD.top - PAD.bottom);
  const path = (pick: (row: Speedup) => number) => rows.map((row, i) => `${i === 0 ? "M" : "L"}${x(row.workers).toFixed(1)} ${y(pick(row)).toFixed(1)}`).join("");
  const ticks = [1, ...[2, 4, 8, 16, 32].filter((t) => t <= most)];
  return (
    <svg class="wg-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={rows.map((row) => `${row.workers} workers ${shownNumber(row.speedup, 3)} times as fast`).join(", ") || "How much faster with more workers"}>
      {ticks.map((t) => (
        <g key={t}>
          <path class="wg-grid-line" d={`M${PAD.left} ${y(t)}H${WIDTH - PAD.right}`} />
          <text x={PAD.left - 6} y={y(t) + 4} text-anchor="end">
            {t}×
          </text>
        </g>
      ))}
      {rows.map((row) => (
        <text key={row.workers} x={x(row.workers)} y={HEIGHT - 6} text-anchor="middle" class={row.workers === chosen ? "is-on" : ""}>
          {row.workers}
        </text>
      ))}
      <path class="wg-bound" d={path((row) => row.bound)} />
      <path class="wg-speedup" d={path((row) => row.speedup)} />
      {rows.map((row) => (
        <circle key={row.workers} class={row.workers === chosen ? "is-on" : ""} cx={x(row.workers)} cy={y(row.speedup)} r={row.workers === chosen ? 5 : 3} onClick={() => choose(row.workers)}>
          <title>{`${row.workers} workers: ${shownNumber(row.speedup, 3)} times as fast`}</title>
        </circle>
      ))}
    </svg>
  );
}

/** Work that could be done at the same time, level by level, by its logarithm. Neighbouring levels share a bar where there are many. */
export function LevelChart({ level, current }: { level: Int32Array; current: number }) {
  const widths = levelWidths(level);
  const step = Math.ceil(widths.length / 140);
  const grouped = Array.from({ length: Math.ceil(widths.length / step) }, (_, i) => Math.max(...widths.slice(i * step, (i + 1) * step)));
  const most = Math.max(1, ...grouped);
  const wide = (WIDTH - PAD.left - PAD.right) / Math.max(1, grouped.length);
  const room = HEIGHT - PAD.top - PAD.bottom;
  const bar = (n: number, i: number) => `M${(PAD.left + i * wide).toFixed(2)} ${HEIGHT - PAD.bottom}v${(-(Math.log2(1 + n) / Math.log2(1 + most)) * room).toFixed(2)}h${Math.max(0.5, wide - (wide > 3 ? 1 : 0)).toFixed(2)}V${HEIGHT - PAD.bottom}z`;
  const at = current < 0 ? -1 : Math.floor(current / step);
  return (
    <svg class="wg-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${widths.length} levels, at most ${most} side by side`}>
      <path class="wg-grid-line" d={`M${PAD.left} ${HEIGHT - PAD.bottom}H${WIDTH - PAD.right}`} />
      <path class="wg-level-bars" d={grouped.map(bar).join("")} />
      {at >= 0 && <path class="wg-level-now" d={bar(grouped[at] as number, at)} />}
      <text x={PAD.left - 6} y={PAD.top + 8} text-anchor="end">
        {most}
      </text>
      <text x={PAD.left} y={HEIGHT - 6}>
        level 0
      </text>
      <text x={WIDTH - PAD.right} y={HEIGHT - 6} text-anchor="end">
        {widths.length - 1}
      </text>
    </svg>
  );
}

export const levelWidths = once((level: Int32Array): readonly number[] => {
  const widths: number[] = [];
  for (const l of level) widths[l] = (widths[l] ?? 0) + 1;
  return Array.from(widths, (n) => n ?? 0);
});
