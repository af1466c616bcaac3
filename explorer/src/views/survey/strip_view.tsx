/** The layer strip: one column a layer, size of values above, of gradients below, and the lens into the chosen one. */
import { useId, useMemo } from "preact/hooks";
import { recordedValue, type Model } from "../../trace/model";
import { shownNumber } from "../../format";
import type { Border, Column, Strip } from "./strip";
import { logScale } from "./totals";

/** Heights of the drawing, from above. */
const MIDDLE = 62;
const HALF = 24;
const LANES_APART = 3;
const STRIP_HEIGHT = typeof innerHeight === "number" && innerHeight < 860 ? 140 : 178;
const LENS_TOP = MIDDLE + HALF + 4;
const SIDE = 34;
const WIDEST_PITCH = 64;
/** Room that a circle at an end takes beyond a column's. */
const END = 26;

/** How large an input's circle is: among narrow columns no larger than these. */
const INPUT = 15;
export function inputRadius(pitch: number): number {
  return Math.max(3.5, Math.min(INPUT, pitch * 0.46));
}

/** Middles of the columns and how wide each is. */
export function placesOf(count: number, width: number, ends: { first: boolean; last: boolean }): { x: number[]; wide: number; pitch: number } {
  const inner = width - 2 * SIDE;
  // Circles at the ends need more room than narrow columns have.
  const more = (ends.first ? END : 0) + (ends.last ? END : 0);
  const roomy = inner / Math.max(1, count - 1) >= END + 8;
  const pitch = count > 1 ? Math.min(WIDEST_PITCH, (inner - (roomy ? 0 : more)) / (count - 1)) : 0;
  const apart = roomy ? 0 : END;
  const start = (width - pitch * (count - 1) - (roomy ? 0 : more)) / 2;
  const x = Array.from({ length: count }, (_, i) => start + i * pitch + (ends.first && i > 0 ? apart : 0) + (ends.last && i === count - 1 ? apart : 0));
  return { x, wide: Math.max(8, Math.min(40, pitch * 0.84)), pitch };
}

interface Props {
  model: Model;
  strip: Strip;
  width: number;
  /** How much of what was searched for is in each column. */
  found: Int32Array;
  chosen: number;
  /** The column that the clock is in, -1 for none. */
  current: number;
  choose: (column: number) => void;
  enter: (column: number) => void;
}

export function StripView({ model, strip, width, found, chosen, current, choose, enter }: Props) {
  const hatch = useId();
  const glow = useId();
  const { columns, borders } = strip;
  const { x, wide, pitch } = placesOf(columns.length, width, { first: columns[0]?.kind === "input", last: columns[columns.length - 1]?.kind === "loss" });
  const scales = useMemo(
    () => ({ value: logScale(columns.map((c) => c.valueSize)), gradient: logScale(columns.map((c) => c.gradientSize)) }),
    [strip],
  );
  return (
    <svg class="wg-strip" width={width} height={STRIP_HEIGHT} role="listbox" aria-label="Layers" aria-orientation="horizontal">
      <defs>
        <pattern id={hatch} width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="7" height="7" class="wg-hatch-ground" />
          <rect width="3" height="7" class="wg-hatch-line" />
        </pattern>
        <linearGradient id={glow} x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" class="wg-lens-top" />
          <stop offset="1" class="wg-lens-bottom" />
        </linearGradient>
      </defs>
      {chosen >= 0 && <path d={lens(x[chosen] as number, wide, width)} fill={`url(#${glow})`} />}
      {borders.map((border, i) => (
        <Lanes key={i} border={border} from={x[i] as number} to={x[i + 1] as number} />
      ))}
      {listsOf(columns).map(({ name, first, last }) => (
        <g key={first} class="wg-column-list" aria-hidden="true">
          <path d={`M${(x[first] as number) - wide / 2} ${MIDDLE - HALF - 19}H${(x[last] as number) + wide / 2}`} />
          <text x={((x[first] as number) + (x[last] as number)) / 2} y={MIDDLE - HALF - 23} text-anchor="middle">
            {shortenedTo(name, (x[last] as number) - (x[first] as number) + wide)}
          </text>
        </g>
      ))}
      {columns.map((column, i) => (
        <g
          key={i}
          class={`wg-column is-${column.kind}${i === chosen ? " is-chosen" : ""}`}
          role="option"
          aria-selected={i === chosen}
          aria-label={said(column, found[i] as number)}
          tabIndex={i === Math.max(0, chosen) ? 0 : -1}
          transform={`translate(${x[i] as number} ${MIDDLE})`}
          onClick={() => choose(i)}
          onDblClick={() => enter(i)}
          onKeyDown={(event) => {
            if (event.key === "Enter") enterOrChoose(event, i === chosen ? enter : choose, i);
            if (event.key === "ArrowRight" || event.key === "ArrowLeft") move(event, choose, i, columns.length);
          }}
        >
          <title>{said(column, found[i] as number)}</title>
          {column.kind === "input" || column.kind === "loss" ? (
            <End model={model} column={column} radius={i === 0 ? INPUT : inputRadius(pitch)} />
          ) : (
            <Bars column={column} wide={wide} value={scales.value(column.valueSize)} gradient={scales.gradient(column.gradientSize)} hatch={hatch} />
          )}
          {showsLabel(columns, i, pitch) && column.kind !== "loss" && (
            <text class="wg-column-name" y={column.kind === "input" ? HALF + 12 : -HALF - 8} text-anchor="middle">
              {shortened(column, column.kind === "input" ? Math.max(2 * SIDE, 1.6 * pitch) : pitch * labelSpan(pitch))}
            </text>
          )}
          {(found[i] as number) > 0 && <rect class="wg-column-found" x={-wide / 2} y={HALF + 4} width={wide} height="4" rx="2" />}
          {i === current && i !== chosen && <path class="wg-column-now" d={`M-5 ${HALF + 10}L0 ${HALF + 4}L5 ${HALF + 10}Z`} />}
        </g>
      ))}
    </svg>
  );
}

/** Neighbouring columns that are numbers of one thing. */
export function listsOf(columns: readonly Column[]): { name: string; first: number; last: number }[] {
  const out: { name: string; first: number; last: number }[] = [];
  columns.forEach(({ list }, i) => {
    const before = out[out.length - 1];
    if (list === undefined) return;
    if (before !== undefined && before.name === list && before.last === i - 1) before.last = i;
    else out.push({ name: list, first: i, last: i });
  });
  return out;
}

function enterOrChoose(event: KeyboardEvent, act: (i: number) => void, i: number): void {
  event.preventDefault();
  act(i);
}

function move(event: KeyboardEvent, choose: (i: number) => void, i: number, count: number): void {
  event.preventDefault();
  const next = Math.max(0, Math.min(count - 1, i + (event.key === "ArrowRight" ? 1 : -1)));
  choose(next);
  const row = (event.currentTarget as Element).parentElement?.querySelectorAll<SVGGElement>("[role=option]");
  row?.[next]?.focus();
}

/** From the column's foot to the whole width of the panel below. */
function lens(x: number, wide: number, width: number): string {
  const [left, right, bottom] = [x - wide / 2, x + wide / 2, STRIP_HEIGHT];
  const bend = LENS_TOP + (bottom - LENS_TOP) * 0.62;
  return (
    `M${left} ${LENS_TOP}C${left} ${bend} 16 ${LENS_TOP + 22} 16 ${bottom}` +
    `H${width - 16}C${width - 16} ${LENS_TOP + 22} ${right} ${bend} ${right} ${LENS_TOP}Z`
  );
}

function Lanes({ border, from, to }: { border: Border; from: number; to: number }) {
  return (
    <>
      {border.value && <path class={`wg-lane-value${border.badValue ? " is-bad" : ""}`} d={`M${from} ${MIDDLE - LANES_APART}H${to}`} />}
      {border.gradient && <path class={`wg-lane-gradient${border.badGradient ? " is-bad" : ""}`} d={`M${from} ${MIDDLE + LANES_APART}H${to}`} />}
    </>
  );
}

function Bars({ column, wide, value, gradient, hatch }: { column: Column; wide: number; value: number; gradient: number; hatch: string }) {
  const inner = wide - (wide > 20 ? 12 : 4);
  const room = HALF - 6;
  const up = column.badValues ? room : value * room;
  const down = column.badGradients ? room : gradient * room;
  return (
    <>
      <rect class="wg-column-box" x={-wide / 2} y={-HALF} width={wide} height={2 * HALF} rx={Math.min(8, wide / 4)} />
      {up > 0 && <rect class="wg-column-value" x={-inner / 2} y={-1 - up} width={inner} height={up} rx="2" {...(column.badValues ? { style: { fill: `url(#${hatch})` } } : {})} />}
      {down > 0 && <rect class="wg-column-gradient" x={-inner / 2} y={1} width={inner} height={down} rx="2" {...(column.badGradients ? { style: { fill: `url(#${hatch})` } } : {})} />}
    </>
  );
}

function End({ model, column, radius }: { model: Model; column: Column; radius: number }) {
  const node = column.nodes[0] as number;
  if (column.kind === "input") return <circle class="wg-column-input" r={radius} />;
  const value = recordedValue(model, node);
  return (
    <>
      <circle class="wg-column-loss-ring" r="18" />
      <circle class="wg-column-loss" r="14.5" />
      <text class="wg-math wg-column-loss-letter" y="6" text-anchor="middle">
        L
      </text>
      {value !== null && (
        <text class={`wg-mono wg-column-number${Number.isFinite(value) ? "" : " is-bad"}`} y={HALF + 13} text-anchor="middle">
          {shownNumber(value)}
        </text>
      )}
    </>
  );
}

/** Every so many columns have their name shown, by the room that there is. */
function labelSpan(pitch: number): number {
  return pitch >= 22 ? 1 : pitch >= 14 ? 2 : pitch >= 8 ? 5 : 10;
}

function showsLabel(columns: readonly Column[], i: number, pitch: number): boolean {
  return i % labelSpan(pitch) === 0 || columns[i]?.kind === "loss";
}

/** As much of a name as fits; of a column that several layers share the first. */
function shortened(column: Column, width: number): string {
  const { label } = column;
  const whole = shortenedTo(label, width);
  return whole === label || column.scopes.length <= 1 ? whole : shortenedTo(label.split("–")[0] as string, width);
}

function shortenedTo(label: string, width: number): string {
  const room = Math.max(3, Math.floor(((width === 0 ? 200 : width) - 4) / 6.6));
  return label.length <= room ? label : `${label.slice(0, room - 1)}…`;
}

function said(column: Column, found: number): string {
  const size = (rms: number) => (column.rough ? `about ${shownNumber(rms, 1)}` : shownNumber(rms, 3));
  const parts = [column.list === undefined ? column.label : `${column.list} ${column.label}`, `${column.ops} operation${column.ops === 1 ? "" : "s"}`];
  if (column.badValues) parts.push("values have NaN");
  else if (column.valueSize >= 0) parts.push(`values ${size(column.valueSize)} rms`);
  if (column.badGradients) parts.push("gradients have NaN");
  else if (column.gradientSize >= 0) parts.push(`gradients ${size(column.gradientSize)} rms`);
  if (found > 0) parts.push(`${found.toLocaleString("en")} found`);
  return parts.join(", ");
}
