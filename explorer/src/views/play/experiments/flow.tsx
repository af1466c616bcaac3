/** Vanishing gradients: the sizes of values and of gradients, a bar for each layer. */
import { num } from "../../../trace/decode";
import { extent, logarithmic } from "../../../plot/scale";
import { plainNumber } from "../../../plot/numbers";
import { Card } from "../parts";
import { useSize, type Size } from "../../../plot/size";
import type { FlowFrame, Frame } from "../messages";

export function FlowCenter({ frame }: { frame: Frame<FlowFrame> }) {
  const gradients = frame.values.gradients.map(num);
  const values = frame.values.values.map(num);
  const [first, last] = [gradients[0] ?? 0, gradients.at(-1) ?? 0];
  const ratio = first / last;
  const said =
    first === 0
      ? "nothing reaches the first layer"
      : !Number.isFinite(ratio)
        ? "it is no finite number any more"
        : ratio < 0.1
          ? `the first layer gets ${plainNumber(last / first)} times less than the last`
          : ratio > 10
            ? `the first layer gets ${plainNumber(ratio)} times more than the last`
            : "all layers get about as much";
  return (
    <div class="wg-play-flow">
      <Card title="The gradient of each layer’s weights" aside={said} wide>
        <Bars numbers={gradients} look="gradient" what="norm of the gradient" />
      </Card>
      <Card title="What each layer gives" aside="root mean square over the training points" wide>
        <Bars numbers={values} look="value" what="size of the values" />
      </Card>
    </div>
  );
}

interface BarsProps {
  readonly numbers: readonly number[];
  readonly look: "gradient" | "value";
  readonly what: string;
}

function Bars(props: BarsProps) {
  const [element, size] = useSize<HTMLDivElement>();
  return (
    <div class="wg-play-plot" ref={element}>
      {size.width > 0 && <Drawing {...props} size={size} />}
    </div>
  );
}

const MARGIN = { left: 58, right: 18, top: 46, bottom: 34 };

function Drawing({ numbers, look, what, size }: BarsProps & { size: Size }) {
  const { width, height } = size;
  const positive = numbers.filter((n) => n > 0);
  const [least, most] = extent(positive) ?? [0.1, 1];
  // Whole decades, two at least, so that the scale keeps still while the bars move.
  const high = Math.ceil(Math.log10(most) + 0.05);
  const low = Math.min(high - 2, Math.floor(Math.log10(least) - 0.05));
  const up = logarithmic(10 ** low, 10 ** high, height - MARGIN.bottom, MARGIN.top);
  const pitch = (width - MARGIN.left - MARGIN.right) / numbers.length;
  const thick = Math.min(46, pitch * 0.66);
  const every = Math.ceil(22 / pitch);
  const words = `${what}, by layer: ${numbers.map(plainNumber).join(", ")}`;
  return (
    <svg width={width} height={height} role="img" aria-label={words}>
      {up.ticks.map((tick) => (
        <g key={tick} class="wg-play-tick">
          <line x1={MARGIN.left} x2={width - MARGIN.right} y1={up(tick)} y2={up(tick)} />
          <text x={MARGIN.left - 8} y={up(tick)} text-anchor="end" dy="0.35em">
            <Power tick={tick} />
          </text>
        </g>
      ))}
      {numbers.map((value, i) => {
        const x = MARGIN.left + (i + 0.5) * pitch;
        const top = value > 0 && Number.isFinite(value) ? up(value) : height - MARGIN.bottom;
        const lost = !Number.isFinite(value);
        return (
          <g key={i}>
            <title>{`layer ${i + 1}: ${plainNumber(value)}`}</title>
            {lost || value === 0 ? (
              <text class="wg-play-none" x={x} y={height - MARGIN.bottom - 8} text-anchor="middle">
                {lost ? "NaN" : "0"}
              </text>
            ) : (
              <rect class={`wg-play-bar is-${look}`} x={x - thick / 2} y={top} width={thick} height={Math.max(1, height - MARGIN.bottom - top)} rx={3} />
            )}
            {i % every === 0 && (
              <text class="wg-play-tick-text" x={x} y={height - 12} text-anchor="middle">
                {i + 1}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** Powers of ten with their exponents raised, from a thousandth down and ten thousand up. */
function Power({ tick }: { tick: number }) {
  const exponent = Math.round(Math.log10(tick));
  if (exponent > -3 && exponent < 4) return <>{plainNumber(tick)}</>;
  return (
    <>
      10
      <tspan dy="-0.5em" font-size="9">
        {plainNumber(exponent)}
      </tspan>
    </>
  );
}
