/** Where in a tensor: a strip of cells, lighter where it is larger, hatched where it is not finite. */
import { useId } from "preact/hooks";
import { num } from "../../trace/decode";
import type { Details } from "../../trace/types";

const LEVELS = 8;

/** For each shade the SVG path of its cells, and one for cells that hold NaN or infinities. */
function cellPaths(cells: NonNullable<Details["cells"]>, width: number, row: number, gap = 5): { shades: string[]; bad: string; badCells: number } {
  const sizes = cells.values.map(num);
  const high = sizes.reduce((m, v) => (Number.isFinite(v) && Math.abs(v) > m ? Math.abs(v) : m), 0);
  const shades = new Array<string>(LEVELS).fill("");
  let bad = "";
  let badCells = 0;
  const step = width / cells.cols;
  const inset = step > 3 ? 1 : 0;
  for (let i = 0; i < sizes.length; i++) {
    const v = sizes[i] as number;
    const x = (i % cells.cols) * step;
    const y = Math.floor(i / cells.cols) * (row + gap);
    const box = `M${x.toFixed(2)} ${y}h${(step - inset).toFixed(2)}v${row}h${(inset - step).toFixed(2)}z`;
    if (!Number.isFinite(v)) {
      bad += box;
      badCells++;
      continue;
    }
    const level = high === 0 ? 0 : Math.min(LEVELS - 1, Math.floor((Math.abs(v) / high) * LEVELS));
    shades[level] += box;
  }
  return { shades, bad, badCells };
}

export function Cells({ cells, gradient, label }: { cells: NonNullable<Details["cells"]>; gradient: boolean; label: string }) {
  const id = useId();
  const width = 260;
  const row = cells.rows > 8 ? 7 : 13;
  const gap = cells.rows > 8 ? 2 : 5;
  const { shades, bad, badCells } = cellPaths(cells, width, row, gap);
  const height = cells.rows * (row + gap) - gap;
  const labels = cells.labels ?? Array.from({ length: cells.rows }, (_, i) => String(i));
  const every = cells.rows > 8 ? 4 : 1;
  return (
    <svg class={`wg-cells${gradient ? " is-gradient" : ""}`} viewBox={`-16 0 ${width + 16} ${height}`} role="img" aria-label={`${label}: ${badCells} of ${cells.values.length} cells are not finite`}>
      <defs>
        <pattern id={id} width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="4" height="4" class="wg-hatch-ground" />
          <rect width="1.6" height="4" class="wg-hatch-line" />
        </pattern>
      </defs>
      {labels.map((text, i) => i % every === 0 && (
        <text key={i} x="-5" y={i * (row + gap) + row / 2 + 3.5} text-anchor="end">
          {text}
        </text>
      ))}
      {shades.map((d, i) => d !== "" && <path key={i} d={d} class="wg-cell" style={{ opacity: 0.22 + (0.78 * i) / (LEVELS - 1) }} />)}
      {bad !== "" && <path d={bad} fill={`url(#${id})`} />}
    </svg>
  );
}
