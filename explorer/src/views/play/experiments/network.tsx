/** Two classes in the plane: the network neuron by neuron, and the surface that it makes. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useStore, type Theme } from "../../../state";
import { FEATURES, REACH } from "../../../engine/points";
import type { Pinned, Play } from "../session";
import { Chart } from "../loss_chart";
import { heat } from "../../../plot/heat";
import { link, networkLayout, type Box, type NetworkLayout } from "./network_layout";
import { plainNumber } from "../../../plot/numbers";
import { Card } from "../parts";
import { useSize, type Size } from "../../../plot/size";
import type { Frame, LabelledPoint, NetworkFrame, NetworkScene, PointsScene, Scene } from "../messages";
import { num } from "../../../trace/decode";

export interface NetworkProps {
  readonly play: Play;
  readonly scene: Scene<NetworkScene>;
  readonly frame: Frame<NetworkFrame>;
}

/** A neuron by its hidden layer and place; null is the result. */
type Looked = { readonly layer: number; readonly unit: number } | null;

export function NetworkCenter({ play, scene, frame }: NetworkProps) {
  const [element, size] = useSize<HTMLDivElement>();
  const [looked, setLooked] = useState<Looked>(null);
  const here = looked !== null && looked.unit < (frame.values.widths[looked.layer] ?? 0) ? looked : null;
  return (
    <div class="wg-play-whole">
      <Card title="Neuron by neuron" aside={nameOf(here)} wide>
        <div class="wg-play-plot" ref={element}>
          {size.width > 0 && <Drawing play={play} scene={scene} frame={frame} size={size} looked={here} look={setLooked} />}
        </div>
      </Card>
    </div>
  );
}

function nameOf(looked: Looked): string {
  return looked === null ? "the result" : `layer ${looked.layer + 1}, neuron ${looked.unit + 1}`;
}

interface DrawingProps extends NetworkProps {
  readonly size: Size;
  readonly looked: Looked;
  readonly look: (at: Looked) => void;
}

function Drawing({ play, scene, frame, size, looked, look }: DrawingProps) {
  const theme = useStore().theme.value;
  const { widths } = frame.values;
  const { features } = scene.values;
  const layout = useMemo(() => networkLayout(features.length, widths, size.width, size.height), [features.length, widths.join(), size.width, size.height]);
  const discrete = play.discrete.value;
  const regression = frame.history.accuracy === undefined;
  return (
    <>
      <Links frame={frame} layout={layout} size={size} looked={looked} />
      <Pictures scene={scene} frame={frame} layout={layout} size={size} looked={looked} theme={theme} discrete={discrete} />
      <Points points={scene.values} box={layout.output} edge={scene.values.edge} size={size} />
      <Marks features={features} layout={layout} size={size} looked={looked} />
      {layout.columns.slice(1).map((column, layer) =>
        column.map((box, unit) => (
          <Neuron key={`${layer} ${unit}`} box={box} frame={frame} layer={layer} unit={unit} pressed={play.pinned.value?.layer === layer && play.pinned.value.unit === unit} look={look} pin={() => pin(play, { layer, unit })} />
        )),
      )}
      <button
        type="button"
        class="wg-play-neuron"
        style={place(layout.output)}
        aria-label="The result: set its weights by hand"
        aria-pressed={play.pinned.value?.layer === widths.length}
        title="Set the weights of the result by hand"
        onClick={() => pin(play, { layer: widths.length, unit: 0 })}
      />
      <Legend layout={layout} regression={regression} />
    </>
  );
}

function pin(play: Play, at: Pinned): void {
  const now = play.pinned.value;
  play.pinned.value = now?.layer === at.layer && now.unit === at.unit ? null : at;
}

function place(box: Box): { left: string; top: string; width: string; height: string } {
  return { left: `${box.x}px`, top: `${box.y}px`, width: `${box.side}px`, height: `${box.side}px` };
}

/** The strongest weights that are drawn at full width. */
const STRONG = 2.5;

function Links({ frame, layout, size, looked }: { frame: Frame<NetworkFrame>; layout: NetworkLayout; size: Size; looked: Looked }) {
  const { weights } = frame.values;
  const last = weights.length - 1;
  return (
    <svg width={size.width} height={size.height} aria-hidden="true">
      {weights.map((rows, layer) =>
        rows.map((row, to) =>
          row.map((weight, from) => {
            const source = layout.columns[layer]?.[from];
            const target = layer === last ? layout.output : layout.columns[layer + 1]?.[to];
            if (source === undefined || target === undefined) return null;
            const into = looked !== null && looked.layer === layer && looked.unit === to;
            const outOf = looked !== null && looked.layer === layer - 1 && looked.unit === from;
            const strength = Math.min(1, Math.abs(weight) / STRONG);
            return (
              <path
                key={`${layer} ${to} ${from}`}
                class={`wg-play-link${weight < 0 ? " is-negative" : ""}`}
                d={link(source, target)}
                stroke-width={(0.4 + 4.2 * strength).toFixed(2)}
                opacity={looked === null || into || outOf ? (0.18 + 0.72 * strength).toFixed(2) : "0.07"}
              />
            );
          }),
        ),
      )}
    </svg>
  );
}

interface PicturesProps extends Omit<NetworkProps, "play"> {
  readonly discrete: boolean;
  readonly layout: NetworkLayout;
  readonly size: Size;
  readonly looked: Looked;
  readonly theme: Theme;
}

/** All pictures on one canvas: a frame paints them once. */
function Pictures({ scene, frame, layout, size, looked, theme, discrete }: PicturesProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    const { surface, neurons } = frame.arrays;
    if (!(surface instanceof Uint8Array) || !(neurons instanceof Uint8Array)) return;
    const total = frame.values.widths.reduce((a, b) => a + b, 0);
    const small = Math.round(Math.sqrt(neurons.length / total));
    const large = Math.round(Math.sqrt(surface.length));
    layout.columns[0]?.forEach((box, i) => framed(context, featurePicture(scene.values.features[i] as string, theme), box, 6));
    let at = 0;
    layout.columns.slice(1).forEach((column, layer) =>
      column.forEach((box, unit) => {
        const picture = heat(neurons, at * small * small, small, theme);
        framed(context, picture, box, 6);
        if (looked?.layer === layer && looked.unit === unit) framed(context, picture, layout.output, 8);
        at++;
      }),
    );
    if (looked === null) framed(context, heat(discrete ? surface.map(sided) : surface, 0, large, theme), layout.output, 8);
  }, [scene, frame, layout, size, looked, theme, discrete, ratio]);
  return <canvas ref={canvas} width={size.width * ratio} height={size.height * ratio} style={{ width: "100%", height: "100%" }} aria-hidden="true" />;
}

function framed(context: CanvasRenderingContext2D, picture: HTMLCanvasElement, box: Box, radius: number): void {
  context.save();
  context.beginPath();
  context.roundRect(box.x, box.y, box.side, box.side, radius);
  context.clip();
  context.imageSmoothingEnabled = true;
  context.drawImage(picture, box.x, box.y, box.side, box.side);
  context.restore();
}

/** What a feature is over the plane, its largest value at the end of the colours. */
function featurePicture(name: string, theme: Theme): HTMLCanvasElement {
  const side = 16;
  const feature = FEATURES[name] ?? (() => 0);
  const at = (k: number) => REACH * ((2 * k) / (side - 1) - 1);
  const values = Array.from({ length: side * side }, (_, i) => feature([at(i % side), at(side - 1 - Math.floor(i / side))]));
  const reach = Math.max(...values.map(Math.abs));
  return heat(Uint8Array.from(values, (value) => Math.round(128 + (127 * value) / reach)), 0, side, theme);
}

/** A colour's code as that of the nearer end. */
function sided(code: number): number {
  return code === 0 ? 0 : code > 128 ? 255 : 1;
}

/** Points of the training set are filled, those for testing hollow; class 1 is round, class 0 square. Heights are paler near zero. */
export function Points({ points, box, edge, size }: { points: PointsScene; box: Box; edge: number; size: Size }) {
  const at = ([x, y]: LabelledPoint) =>
    [box.x + ((x / edge + 1) / 2) * box.side, box.y + ((1 - y / edge) / 2) * box.side] as const;
  // Heights are told apart at zero, classes between 0 and 1.
  const heights = points.train.some(([, , label]) => label !== 0 && label !== 1);
  const half = heights ? 0 : 0.5;
  const highest = points.train.reduce((most, [, , label]) => Math.max(most, Math.abs(label)), 1e-9);
  const mark = (point: LabelledPoint, i: number, test: boolean) => {
    const [x, y] = at(point);
    const name = `wg-play-mark is-${point[2] > half ? "one" : "zero"}${test ? " is-test" : heights ? " is-height" : ""}`;
    const style = heights ? { "--share": `${Math.round((100 * Math.abs(point[2])) / highest)}%` } : undefined;
    const shape = { key: i, class: name, style };
    return point[2] > half ? <circle {...shape} cx={x} cy={y} r={3} /> : <rect {...shape} x={x - 2.6} y={y - 2.6} width={5.2} height={5.2} />;
  };
  const drawn = useMemo(
    () => [points.train.map((point, i) => mark(point, i, false)), points.test.map((point, i) => mark(point, i, true))],
    [points, box.x, box.y, box.side],
  );
  return (
    <svg width={size.width} height={size.height} role="img" aria-label={`${points.train.length} points to train on, ${points.test.length} to test on`}>
      {drawn}
    </svg>
  );
}

/** Outlines and names of inputs. */
function Marks({ features, layout, size, looked }: { features: readonly string[]; layout: NetworkLayout; size: Size; looked: Looked }) {
  return (
    <svg width={size.width} height={size.height} aria-hidden="true">
      {layout.columns.map((column, c) =>
        column.map((box, r) => (
          <rect
            key={`${c} ${r}`}
            class={c === 0 ? "wg-play-tile is-input" : looked?.layer === c - 1 && looked.unit === r ? "wg-play-tile is-looked" : "wg-play-tile"}
            x={box.x}
            y={box.y}
            width={box.side}
            height={box.side}
            rx={6}
          />
        )),
      )}
      <rect class="wg-play-tile is-output" x={layout.output.x} y={layout.output.y} width={layout.output.side} height={layout.output.side} rx={8} />
      {layout.columns[0]?.map((box, i) => (
        <text key={i} class="wg-play-axis" x={box.x + box.side / 2} y={box.y - 6} text-anchor="middle">
          {features[i]}
        </text>
      ))}
    </svg>
  );
}

interface NeuronProps {
  readonly box: Box;
  readonly frame: Frame<NetworkFrame>;
  readonly layer: number;
  readonly unit: number;
  readonly pressed: boolean;
  readonly look: (at: Looked) => void;
  readonly pin: () => void;
}

function Neuron({ box, frame, layer, unit, pressed, look, pin }: NeuronProps) {
  const { weights, biases, widths, reaches } = frame.values;
  const row = weights[layer]?.[unit] ?? [];
  const before = widths.slice(0, layer).reduce((a, b) => a + b, 0);
  const words = `Layer ${layer + 1}, neuron ${unit + 1}: bias ${plainNumber(biases[layer]?.[unit] ?? 0)}, weights ${row.map(plainNumber).join(", ")}, up to ±${plainNumber(num(reaches[before + unit] ?? 0))}`;
  return (
    <button
      type="button"
      class="wg-play-neuron"
      style={place(box)}
      aria-label={words}
      aria-pressed={pressed}
      title={words}
      onMouseEnter={() => look({ layer, unit })}
      onMouseLeave={() => look(null)}
      onFocus={() => look({ layer, unit })}
      onBlur={() => look(null)}
      onClick={pin}
    />
  );
}

function Legend({ layout, regression }: { layout: NetworkLayout; regression: boolean }) {
  return (
    <p class="wg-play-legend" style={{ right: "16px", maxWidth: `${Math.max(240, layout.output.x + layout.output.side)}px` }}>
      <span>
        <i class="is-one" /> {regression ? "above zero" : "class 1, above zero"}
      </span>
      <span>
        <i class="is-zero" /> {regression ? "below zero" : "class 0, below zero"}
      </span>
      {regression && <span>paler near zero</span>}
      <span>
        <i class="is-test" /> for testing
      </span>
      <span>
        <i class="is-dashed" /> negative weight
      </span>
    </p>
  );
}

// -- on the right

export function NetworkRight({ frame }: { frame: Frame }) {
  const at = frame.history.steps.indexOf(frame.step);
  const value = (name: string) => num(frame.history[name]?.[at] ?? "nan");
  const percent = (name: string) => `${(100 * value(name)).toFixed(1)}%`;
  return (
    <>
      <section class="wg-section">
        <h2>Loss</h2>
        <Chart
          frame={frame}
          curves={[
            { name: "loss", label: "training", look: "first" },
            { name: "test", label: "test", look: "second" },
          ]}
          scale="logarithmic"
          label="Loss"
        />
        <dl class="wg-play-facts">
          <dt>
            <i class="wg-play-key is-first" /> on the training points
          </dt>
          <dd>{plainNumber(value("loss"))}</dd>
          <dt>
            <i class="wg-play-key is-second" /> on the test points
          </dt>
          <dd>{plainNumber(value("test"))}</dd>
        </dl>
      </section>
      {frame.history.accuracy !== undefined && <section class="wg-section">
        <h2>Told apart</h2>
        <Chart
          frame={frame}
          curves={[
            { name: "accuracy", label: "training", look: "first" },
            { name: "test_accuracy", label: "test", look: "second" },
          ]}
          scale="share"
          label="Share of points on the right side"
        />
        <dl class="wg-play-facts">
          <dt>of the training points</dt>
          <dd>{percent("accuracy")}</dd>
          <dt>of the test points</dt>
          <dd>{percent("test_accuracy")}</dd>
          <dt>step</dt>
          <dd>
            {frame.step} of {frame.horizon}
          </dd>
        </dl>
      </section>}
    </>
  );
}
