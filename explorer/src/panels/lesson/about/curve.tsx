/** If only this one moved: the loss along it, with the tangent whose slope is the gradient. Leaves can be dragged. */
import { useMemo, useRef } from "preact/hooks";
import { shownNumber, subscript } from "../../../format";
import { calledOf, namePart, plain, plainName } from "../../../formula/expression";
import { Formula } from "../../../formula/view";
import { canMove, lossAlong } from "../../../scalar/run";
import { programFor } from "../../../scalar/recompute";
import { moveLeaf, useStore } from "../../../state";
import { kindOf, recordedValue } from "../../../trace/model";
import { along, canBeDrawn, roundName, sample, stretchOf, type Samples } from "./sampling";
import { lossPart } from "../telling";
import { isAhead } from "./paths_section";

const WIDE = 280;
const HIGH = 126;
const MARGIN = 6;
const FLOOR = 102;
const CEILING = 12;
const RISE = FLOOR - CEILING - 6;
/** Half of the tangent's length. */
const TANGENT = 58;

export function CurveSection({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const root = model.trace.meta.roots[0];
  const program = programFor(model);
  const at = store.numbers.value.value(node);
  const gradient = store.numbers.value.gradient(node);
  const recorded = recordedValue(model, node);
  const others = useMemo(() => {
    const rest = new Map(store.moved.value);
    rest.delete(node);
    return rest;
  }, [store.moved.value, node]);
  const usual = useMemo(() => {
    if ("reason" in program || recorded === null) return null;
    return stretchOf(lossAlong(program, node, others), recorded);
  }, [program, node, recorded, others]);
  const outside = usual !== null && at !== null && (at < usual[0] || at > usual[1]) ? at : null;
  const shown = useMemo(() => {
    if ("reason" in program || usual === null) return null;
    const curve = lossAlong(program, node, others);
    // The stretch stays while the point is dragged along it, and grows with a point that has left it.
    const [from, to] = usual;
    if (outside === null) return { curve, samples: sample(curve, from, to) };
    const margin = Math.abs(outside - (outside < from ? to : from)) / 8;
    return { curve, samples: sample(curve, Math.min(from, outside - margin), Math.max(to, outside + margin)) };
  }, [program, node, usual, others, outside]);
  if (isAhead(store, node)) return null;
  if (root === undefined || node === root || shown === null || at === null || gradient === null) return null;
  if (shown.samples.high === shown.samples.low && gradient === 0) return null;
  if (!canBeDrawn(at, shown.samples)) return null;
  const movable = canMove(model, node);
  return (
    <section class="wg-section">
      <h2>
        <span>
          If only <Formula parts={[namePart(model, node)]} /> moved
        </span>
        {movable && <small>drag to try</small>}
      </h2>
      <Plot node={node} at={at} gradient={gradient} samples={shown.samples} loss={shown.curve(at)} movable={movable} />
    </section>
  );
}

interface PlotProps {
  readonly node: number;
  readonly at: number;
  readonly gradient: number;
  readonly samples: Samples;
  readonly loss: number;
  readonly movable: boolean;
}

function Plot({ node, at, gradient, samples, loss, movable }: PlotProps) {
  const store = useStore();
  const model = store.model.value;
  const frame = useRef<HTMLDivElement>(null);
  const { from, to, low, high } = samples;
  const x = (value: number) => ((value - from) / (to - from)) * WIDE;
  const y = (value: number) => FLOOR - ((value - low) / (high - low || 1)) * RISE - 4;
  const name = plainName(model, node);
  const called = calledOf(model, node);
  const written = called.name + subscript(called.index);
  const sure = Number.isFinite(loss) && Number.isFinite(gradient);
  const step = 10 ** (Math.floor(Math.log10(to - from)) - 2);
  const move = (value: number) => moveLeaf(store, node, Number((Math.round(value / step) * step).toPrecision(12)));
  const drag = (event: PointerEvent) => {
    const box = frame.current?.getBoundingClientRect();
    if (box === undefined) return;
    const across = ((event.clientX - box.left) / box.width) * (WIDE + 2 * MARGIN) - MARGIN;
    move(from + (Math.min(WIDE, Math.max(0, across)) / WIDE) * (to - from));
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(at + by * step);
  };
  const handle = movable
    ? {
        role: "slider" as const,
        tabIndex: 0,
        "aria-valuemin": from,
        "aria-valuemax": to,
        "aria-valuenow": at,
        "aria-valuetext": `${name} ${shownNumber(at)}, loss ${shownNumber(loss)}, slope ${shownNumber(gradient)}`,
        onKeyDown: keys,
        onPointerDown: (event: PointerEvent) => {
          (event.currentTarget as Element).setPointerCapture(event.pointerId);
          drag(event);
        },
        onPointerMove: (event: PointerEvent) => {
          if (event.buttons === 1) drag(event);
        },
      }
    : { role: "img" as const };
  const direction = along(gradient, WIDE / (to - from), RISE / (high - low || 1), TANGENT);
  const label = plain([lossPart(model)]);
  const left = x(at) > WIDE * 0.62;
  return (
    <div
      ref={frame}
      class={movable ? "wg-curve is-movable" : "wg-curve"}
      aria-label={`${label} as a function of ${name}`}
      {...handle}
    >
      <svg viewBox={`${-MARGIN} 0 ${WIDE + 2 * MARGIN} ${HIGH}`} aria-hidden="true">
        <path class="wg-axis" d={`M0 ${FLOOR}H${WIDE}`} />
        {samples.turns.map((turn) => (
          <g key={turn}>
            <path class="wg-axis" d={`M${x(turn).toFixed(1)} ${FLOOR - 4}v8`} />
            {Math.abs(x(turn) - x(at)) > 34 && (
              <text class="wg-curve-mark" x={x(turn)} y={FLOOR + 20} text-anchor="middle">
                {roundName(turn)}
              </text>
            )}
          </g>
        ))}
        <path class="wg-curve-line" d={lineOf(samples, x, y)} />
        <text class="wg-math wg-curve-name" x={labelPlace(samples)} y={CEILING + 8}>
          {label}({written})
        </text>
        {sure && (
          <>
            <path class="wg-curve-tangent" d={tangent(x(at), y(loss), direction)} />
            <path class="wg-curve-drop" d={`M${x(at).toFixed(1)} ${y(loss).toFixed(1)}V${FLOOR}`} />
            <circle class="wg-curve-point" cx={x(at)} cy={y(loss)} r="5" />
            <text
              class="wg-curve-slope"
              x={x(at) + (left ? -14 : 14)}
              y={Math.max(CEILING + 24, y(loss) - 18)}
              text-anchor={left ? "end" : "start"}
            >
              slope {shownNumber(gradient)}
            </text>
          </>
        )}
        <g class={`wg-curve-handle is-${kindOf(model, node)}`} transform={`translate(${x(at).toFixed(1)} ${FLOOR})`}>
          <path d="M0 -8.5L7.4 -4.25V4.25L0 8.5L-7.4 4.25V-4.25Z" />
        </g>
        <text class="wg-curve-value" x={x(at)} y={FLOOR + 22} text-anchor="middle">
          {shownNumber(at)}
        </text>
      </svg>
    </div>
  );
}

/** The curve's name stands at the side where the curve leaves room at the top. */
function labelPlace({ y }: Samples): number {
  const mean = (part: readonly number[]) => part.reduce((a, b) => a + b, 0) / part.length;
  const edge = Math.round(y.length / 6);
  const [left, right] = [mean(y.slice(0, edge)), mean(y.slice(-edge))];
  return left > right * 1.2 ? WIDE - 40 : left * 1.2 < right ? 4 : 34;
}

function lineOf(
  { x: places, y: values, low, high }: Samples,
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  let pen = false;
  let line = "";
  const over = high + 0.2 * (high - low || 1);
  places.forEach((place, i) => {
    const value = values[i] as number;
    if (!Number.isFinite(value) || value > over || value < low) {
      pen = false;
      return;
    }
    line += `${pen ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  return line;
}

/** A stretch of the tangent, as long on the page whatever its slope. */
function tangent(x: number, y: number, [across, up]: readonly [number, number]): string {
  const end = (sign: number) => `${(x + sign * across).toFixed(1)} ${(y - sign * up).toFixed(1)}`;
  return `M${end(-1)}L${end(1)}`;
}
