/** A scope's graph on a canvas: pan, zoom, choose, open and close. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Target } from "../../draw/display";
import { SURVEY } from "../../draw/folded_looks";
import type { Metrics } from "../../draw/looks";
import { PALETTES, type Palette } from "../../draw/palette";
import { pictureOf, type Picture } from "../../draw/picture";
import { surveyList } from "../../draw/survey_scene";
import { canvasMeasure, cssFont, estimatedWidth, type TextMeasure } from "../../draw/text";
import { nodesWithin } from "../../fold/fold";
import type { Item } from "../../fold/visible";
import type { LayoutCache } from "../../layout/nested";
import type { Rect } from "../../layout/types";
import type { KernelInfo } from "../../trace/types";
import { recordedValue, scopePath, type Model } from "../../trace/model";
import { select, toggleScope, useStore, type Selection } from "../../state";
import { Picture as Board, type Overlay } from "../graph/canvas";
import { edgeLooks, hullsOf, loopsIn, nodeLooks } from "./looks";

/** Below the first zoom names cannot be read: then the picture begins at what is chosen instead of showing everything. Rows are broken for the second. */
const [READABLE, COMFORTABLE] = [0.75, 0.9];

/** A run of middle size is shown whole down to this zoom. */
export const WHOLE = 0.62;

/** Single numbers stand on the lanes, and need room. */
const NUMBERED: Metrics = { ...SURVEY, rankGap: 84, nodeGap: 40 };

/** Pixels that a flag above a node takes. */
const FLAG = 36;

const NOTHING: ReadonlySet<number> = new Set();

interface Props {
  focus: number;
  open: ReadonlySet<number>;
  /** Nodes that something else points at. */
  lit?: ReadonlySet<number>;
  /** Kernels whose nodes are framed. */
  kernels: readonly KernelInfo[];
  /** The zoom from which on everything is shown at once. */
  least?: number | undefined;
  /** Shows another part alone; parts are opened and closed here where this is given. */
  goTo?: (scope: number) => void;
}

export function ScopeGraph({ focus, open, lit = NOTHING, kernels, least = READABLE, goTo }: Props) {
  const store = useStore();
  const model = store.model.value;
  const cache = useRef<LayoutCache>(new Map());
  const { box, width, height } = useBox();
  const picture = useMemo(() => (width === 0 ? null : insideOf(model, focus, open, width, cache.current)), [model, focus, open, width]);
  const born = useMemo(() => bornIn(model), [model]);
  const hulls = useMemo(() => (picture === null ? [] : hullsOf(picture, kernels)), [picture, kernels]);
  const loops = useMemo(() => (picture === null ? [] : loopsIn(model, focus, picture)), [picture]);
  const litScopes = useMemo(() => scopesAround(model, lit), [model, lit]);
  const scenery = { cursor: store.cursor.value, selection: store.selection.value, hover: store.hover.value, born, lit, litScopes };
  const drawn = picture === null ? null : surveyList({ ...picture, nodes: nodeLooks(model, picture, scenery), edges: edgeLooks(model, picture, scenery), hulls, loops, handles: goTo !== undefined });
  const items = picture?.graph.items ?? [];
  const selectionOf = (target: Target | null): Selection => {
    if (target === null || picture === null) return null;
    if ("item" in target) return itemSelection(items[target.item] as Item);
    return { kind: "edge", row: (picture.graph.edges[target.edge]?.rows[0] as number) };
  };
  return (
    <div class="wg-loupe-box" ref={box}>
      {drawn !== null && picture !== null && (
        <Board
          list={drawn}
          palette={PALETTES[store.theme.value]}
          fitKey={picture}
          focus={nearSelection(items, picture.layout.boxes, store.selection.peek(), drawn.bounds, width, height, least)}
          label={`Graph of ${scopePath(model, focus).join(".") || model.trace.meta.title}, ${picture.graph.boxes} boxes`}
          overlay={flagsOver(picture, born, PALETTES[store.theme.value])}
          insets={{ top: items.some((item) => item.kind === "node" && born.has(item.node)) ? FLAG : 0, bottom: 0, side: 0 }}
          zoom={true}
          onPress={(target) => {
            const at = selectionOf(target);
            if (target?.kind === "enter" && at?.kind === "scope") goTo?.(at.row);
            else select(store, at);
            if (target?.kind === "toggle" && at?.kind === "scope") toggleScope(store, at.row);
          }}
          onHover={(target) => (store.hover.value = selectionOf(target))}
          onOpen={(target) => {
            const at = selectionOf(target);
            if (at?.kind === "scope") toggleScope(store, at.row);
          }}
        />
      )}
    </div>
  );
}

/** The inside of a scope as it is drawn in so much room. */
export function insideOf(model: Model, scope: number, open: ReadonlySet<number>, width: number, cache: LayoutCache): Picture {
  const metrics = nodesWithin(model, scope).some((n) => recordedValue(model, n) !== null) ? NUMBERED : SURVEY;
  return pictureOf(model, { open, within: scope, metrics, measure: measure(), cache, hideConstants: true, inlineCopies: true, wrapWidth: (width - 48) / COMFORTABLE, wrapStrictly: true, bus: true });
}

/** All scopes that hold one of some nodes. */
function scopesAround(model: Model, nodes: ReadonlySet<number>): ReadonlySet<number> {
  const { parent } = model.trace.scopes;
  const found = new Set<number>();
  for (const n of nodes) for (let s = model.trace.nodes.scope[n] as number; s >= 0 && !found.has(s); s = parent[s] as number) found.add(s);
  return found;
}

/** A flag on every node where NaN is born, as large at every zoom. */
function flagsOver({ graph, layout }: Picture, born: ReadonlyMap<number, string>, palette: Palette): Overlay | undefined {
  const flags = graph.items.flatMap((item, i) => {
    const text = item.kind === "node" ? born.get(item.node) : undefined;
    return text === undefined ? [] : [{ text, box: layout.boxes[i] as Rect }];
  });
  if (flags.length === 0) return undefined;
  return (context) => {
    const zoom = context.getTransform().a / Math.max(1, devicePixelRatio || 1);
    const unit = 1 / zoom;
    context.font = cssFont("ui", 13 * unit, true);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const { text, box } of flags) {
      const x = box.x + box.width / 2;
      const wide = context.measureText(text).width + 26 * unit;
      const [high, foot] = [26 * unit, box.y - 22 * unit];
      context.fillStyle = context.strokeStyle = palette.bad;
      context.lineWidth = 1.6 * unit;
      context.beginPath();
      context.moveTo(x, foot);
      context.lineTo(x, box.y);
      context.stroke();
      context.beginPath();
      context.roundRect(x - wide / 2, foot - high, wide, high, high / 2);
      context.fill();
      context.fillStyle = palette.canvas;
      context.fillText(text, x, foot - high / 2);
    }
  };
}

function itemSelection(item: Item): Selection {
  return item.node >= 0 ? { kind: "node", row: item.node } : { kind: "scope", row: item.scope };
}

/** Where NaN is born, from the findings. */
function bornIn(model: Model): Map<number, string> {
  return new Map(model.trace.findings.filter((f) => f.rule.startsWith("nan") && f.node >= 0).map((f) => [f.node, "NaN born here"]));
}

/** What to fit: everything if it can be read then, else as much around the chosen box as can. */
function nearSelection(items: readonly Item[], boxes: readonly Rect[], selection: Selection, bounds: Rect, width: number, height: number, least: number): Rect {
  const scale = Math.min((width - 48) / bounds.width, (height - 48) / bounds.height);
  if (scale >= least - 0.02 || width === 0) return bounds;
  const i = items.findIndex((item) => {
    const at = itemSelection(item);
    return at !== null && selection !== null && at.kind === selection.kind && at.row === selection.row;
  });
  const [w, h] = [Math.min(bounds.width, (width - 48) / READABLE), Math.min(bounds.height, (height - 48) / READABLE)];
  const at = boxes[i] ?? { x: bounds.x, y: bounds.y, width: w, height: Math.min(h, bounds.height) };
  const clamp = (middle: number, size: number, from: number, all: number) => Math.max(from, Math.min(from + all - size, middle - size / 2));
  return { x: clamp(at.x + at.width / 2, w, bounds.x, bounds.width), y: clamp(at.y + at.height / 2, h, bounds.y, bounds.height), width: w, height: h };
}

let context: CanvasRenderingContext2D | null = null;

/** Texts as wide as the canvas draws them. */
function measure(): TextMeasure {
  context ??= document.createElement("canvas").getContext("2d");
  return context === null ? estimatedWidth : canvasMeasure(context);
}

export function useBox() {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    const read = () => setSize({ width: el.clientWidth, height: el.clientHeight });
    const watch = new ResizeObserver(read);
    watch.observe(el);
    read();
    return () => watch.disconnect();
  }, []);
  return { box, ...size };
}
