/** The roofline: one dot a kernel, both axes by their logarithm. */
import { shownMany, shownNumber } from "../../format";
import type { KernelInfo } from "../../trace/types";
import type { Roofline } from "./roofline";

const WIDTH = 330;
const HEIGHT = 190;
const PAD = { left: 44, right: 12, top: 14, bottom: 32 };

export function RooflineChart({ line, list, chosen, choose }: { line: Roofline; list: readonly KernelInfo[]; chosen: number; choose: (kernel: number) => void }) {
  if (line.places.length === 0) return <p class="wg-muted">No kernel was timed, so none has a place.</p>;
  const xs = line.places.map((p) => p.intensity);
  const ridge = line.compute / line.bandwidth;
  const [x0, x1] = decades(Math.min(...xs, ridge), Math.max(...xs, ridge));
  const [y0, y1] = decades(Math.min(...line.places.map((p) => p.rate)), line.compute);
  const x = (v: number) => PAD.left + ((Math.log10(v) - x0) / (x1 - x0)) * (WIDTH - PAD.left - PAD.right);
  const y = (v: number) => HEIGHT - PAD.bottom - ((Math.log10(v) - y0) / (y1 - y0)) * (HEIGHT - PAD.top - PAD.bottom);
  const low = Math.max(10 ** x0, 10 ** y0 / line.bandwidth);
  const roof = `M${x(low)} ${y(line.bandwidth * low)}L${x(ridge)} ${y(line.compute)}H${x(10 ** x1)}`;
  return (
    <svg class="wg-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Roofline of ${line.places.length} kernels`}>
      {range(y0, y1).map((d) => (
        <g key={d}>
          <path class="wg-grid-line" d={`M${PAD.left} ${y(10 ** d)}H${WIDTH - PAD.right}`} />
          <text x={PAD.left - 6} y={y(10 ** d) + 4} text-anchor="end">
            {shownMany(10 ** d)}
          </text>
        </g>
      ))}
      {range(x0, x1).map((d) => (
        <text key={d} x={x(10 ** d)} y={HEIGHT - PAD.bottom + 14} text-anchor="middle">
          {shownNumber(10 ** d, 2)}
        </text>
      ))}
      <text x={(PAD.left + WIDTH - PAD.right) / 2} y={HEIGHT - 4} text-anchor="middle">
        flops per byte
      </text>
      <path class="wg-bound" d={roof} />
      {line.places.map((p) => (
        <circle key={p.kernel} class={p.kernel === chosen ? "is-on" : ""} cx={x(p.intensity)} cy={y(p.rate)} r={p.kernel === chosen ? 6 : 3} onClick={() => choose(p.kernel)}>
          <title>{`${list[p.kernel]?.name}: ${shownMany(p.rate)} flops/s, ${Math.round(100 * p.share)}% of the best here`}</title>
        </circle>
      ))}
    </svg>
  );
}

function decades(low: number, high: number): [number, number] {
  const from = Math.floor(Math.log10(low));
  return [from, Math.max(from + 1, Math.ceil(Math.log10(high)))];
}

function range(from: number, to: number): number[] {
  const step = Math.ceil((to - from) / 6);
  const out: number[] = [];
  for (let d = from; d <= to; d += step) out.push(d);
  return out;
}
