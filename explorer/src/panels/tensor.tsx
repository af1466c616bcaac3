/** A tensor as the page can show it: few elements as numbers, more as a heat strip and a histogram, with its statistics. */
import { useEffect, useRef, useState } from "preact/hooks";
import { shownNumber, shownShape } from "../format";
import { num } from "../trace/decode";
import { detailsOf, recordedSize, shapeOf } from "../trace/model";
import type { Details } from "../trace/types";
import { useStore } from "../state";
import { Cells } from "./survey/cells";

/** What is known of a node's value or gradient; more is asked for where a live session answers. */
export function useDetails(node: number, gradient: boolean): Details | null {
  const store = useStore();
  const model = store.model.value;
  const recorded = detailsOf(model, node, gradient);
  const [asked, setAsked] = useState<{ node: number; gradient: boolean; found: Details | null } | null>(null);
  const wanted = recorded === null && store.host.details !== undefined;
  useEffect(() => {
    if (!wanted) return;
    let here = true;
    void store.host.details?.(node, gradient).then((found) => {
      if (here) setAsked({ node, gradient, found });
    });
    return () => {
      here = false;
    };
  }, [node, gradient, wanted, store.host]);
  if (recorded !== null) return recorded;
  return asked !== null && asked.node === node && asked.gradient === gradient ? asked.found : null;
}

export function Tensor({ node, gradient }: { node: number; gradient: boolean }) {
  const model = useStore().model.value;
  const details = useDetails(node, gradient);
  const shape = shapeOf(model, node);
  const what = gradient ? "gradient" : "value";
  if (details === null) {
    if (((gradient ? model.gradientCode : model.valueCode)[node] ?? 0) === 0) return null;
    const size = recordedSize(model, node, gradient);
    return <p class="wg-muted">{size === null ? "Its elements were not recorded." : `Size ${shownNumber(size)}; its elements were not recorded.`}</p>;
  }
  return (
    <div class={gradient ? "wg-tensor is-gradient" : "wg-tensor"}>
      {details.values !== undefined ? (
        <Grid values={details.values.map(num)} shape={shape} label={`${what}, ${shownShape(shape)}`} />
      ) : (
        details.cells !== undefined && (
          <Cells cells={details.cells} gradient={gradient} label={`${what}, sizes of its elements`} />
        )
      )}
      {details.size > FEW && num(details.min) < num(details.max) && (
        <Histogram details={details} label={`Distribution of the ${what}'s elements${details.modulus ? ", as |x|" : ""}`} />
      )}
      {details.size > 1 && <Statistics details={details} />}
    </div>
  );
}

/** Up to so many elements say more than their distribution. */
const FEW = 8;
/** A vector continues in a new line after so many elements. */
const ACROSS = 6;

interface GridProps {
  readonly values: readonly number[];
  readonly shape: readonly number[];
  readonly label: string;
  /** The size that is shaded most; without it the largest of the values. */
  readonly high?: number;
  /** The element that is chosen, -1 for none; with `onChoose` elements can be. */
  readonly chosen?: number;
  readonly onChoose?: (element: number) => void;
}

/** Elements as numbers: the last axis across, the one before down, all others one table after the other. */
export function Grid({ values, shape, label, high = largest(values), chosen = -1, onChoose }: GridProps) {
  const vector = shape.length < 2;
  const cols = vector ? Math.min(ACROSS, values.length) : (shape[shape.length - 1] as number);
  const rows = vector ? Math.ceil(values.length / Math.max(1, cols)) : (shape[shape.length - 2] as number);
  const tables = cols * rows === 0 ? 0 : Math.ceil(values.length / (cols * rows));
  const frame = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent, from: number) => {
    const to = from + ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cols, ArrowDown: cols }[event.key] ?? 0);
    if (to === from) return;
    event.preventDefault();
    frame.current?.querySelector<HTMLElement>(`[data-element="${to}"]`)?.focus();
  };
  const shown = (v: number, element: number) =>
    onChoose === undefined ? (
      shownNumber(v, 3)
    ) : (
      <button
        type="button"
        data-element={element}
        tabIndex={element === Math.max(0, chosen) ? 0 : -1}
        aria-pressed={element === chosen}
        onKeyDown={(event) => move(event, element)}
        onClick={() => onChoose(element)}
      >
        {shownNumber(v, 3)}
      </button>
    );
  return (
    <div
      class="wg-grid-scroll"
      ref={frame}
      tabIndex={onChoose === undefined ? 0 : undefined}
      role="group"
      aria-label={label}
    >
      {Array.from({ length: tables }, (_, table) => (
        <table class="wg-grid" key={table}>
          <tbody>
            {Array.from({ length: rows }, (_, row) => (
              <tr key={row}>
                {Array.from({ length: cols }, (_, col) => {
                  const element = (table * rows + row) * cols + col;
                  const v = values[element];
                  if (v === undefined) return null;
                  const heat = high === 0 ? 0 : Math.min(1, Math.abs(v) / high);
                  return (
                    <td key={col} class={Number.isFinite(v) ? "" : "wg-bad"} style={{ "--heat": String(heat) }}>
                      {shown(v, element)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  );
}

export function largest(values: readonly number[]): number {
  return values.reduce((most, v) => (Number.isFinite(v) ? Math.max(most, Math.abs(v)) : most), 0);
}

const WIDE = 260;
const HIGH = 44;

function Histogram({ details, label }: { details: Details; label: string }) {
  const { hist } = details;
  const most = Math.max(1, ...hist);
  const step = WIDE / Math.max(1, hist.length);
  const bars = hist
    .map((n, i) => {
      const height = (n / most) * HIGH;
      return n === 0
        ? ""
        : `M${(i * step).toFixed(2)} ${HIGH}v${(-height).toFixed(2)}h${(step - 1).toFixed(2)}V${HIGH}z`;
    })
    .join("");
  const [min, max] = [num(details.min), num(details.max)];
  const zero = min < 0 && max > 0 ? (-min / (max - min)) * WIDE : null;
  if (hist.length === 0) return null;
  return (
    <svg
      class="wg-hist"
      viewBox={`0 0 ${WIDE} ${HIGH + 16}`}
      role="img"
      aria-label={`${label}, from ${shownNumber(min)} to ${shownNumber(max)}`}
    >
      <path class="wg-hist-bars" d={bars} />
      <path class="wg-axis" d={`M0 ${HIGH + 0.5}H${WIDE}`} />
      {zero !== null && <path class="wg-axis" d={`M${zero.toFixed(1)} 0V${HIGH + 3}`} stroke-dasharray="2 3" />}
      <text x="0" y={HIGH + 13}>
        {shownNumber(min, 3)}
      </text>
      {zero !== null && zero > 50 && zero < WIDE - 50 && (
        <text x={zero} y={HIGH + 13} text-anchor="middle">
          0
        </text>
      )}
      <text x={WIDE} y={HIGH + 13} text-anchor="end">
        {shownNumber(max, 3)}
      </text>
    </svg>
  );
}

function Statistics({ details }: { details: Details }) {
  const facts: [string, string, boolean][] = [
    ...(["min", "max", "mean", "std"] as const).map((name): [string, string, boolean] => [details.modulus ? `${name} |x|` : name, shownNumber(num(details[name])), false]),
    ["zeros", `${details.zero} of ${details.size}`, false],
    ["NaN", String(details.nan), details.nan > 0],
    ["infinite", String(details.inf), details.inf > 0],
  ];
  return (
    <dl class="wg-stats">
      {facts
        .filter(([name, , bad]) => bad || (name !== "infinite" && (name !== "zeros" || details.zero > 0)))
        .map(([name, shown, bad]) => (
          <div key={name} class={bad ? "wg-bad" : ""}>
            <dt>{name}</dt>
            <dd>{shown}</dd>
          </div>
        ))}
    </dl>
  );
}
