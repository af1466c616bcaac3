/** The inside of one layer at reading size. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Target } from "../../draw/display";
import { SURVEY } from "../../draw/looks";
import { PALETTES } from "../../draw/palette";
import { pictureOf } from "../../draw/picture";
import { displayList } from "../../draw/scene";
import { canvasMeasure, estimatedWidth, type TextMeasure } from "../../draw/text";
import type { Item } from "../../fold/fold";
import { ASK_FIRST } from "../../fold/open";
import type { LayoutCache } from "../../layout/nested";
import type { Rect } from "../../layout/types";
import { dtypeOf, edgesAt, scopePath, shapeOf, type Model } from "../../trace/model";
import { select, toggleScope, useStore, type Selection } from "../../state";
import { Picture } from "../graph/canvas";
import { boxesIn, edgeLooks, enoughOpen, hullsOf, nodeLooks } from "./looks";
import { totalsOf, within } from "./totals";

/** Below this zoom names cannot be read: then the picture begins at what is chosen instead of showing everything. */
const READABLE = 0.62;

export function Loupe({ focus, goTo }: { focus: number; goTo: (scope: number) => void }) {
  const store = useStore();
  const model = store.model.value;
  useLayoutEffect(() => {
    const enough = enoughOpen(model, focus, store.open.peek());
    if (enough !== store.open.peek()) store.open.value = enough;
  }, [model, focus]);
  return (
    <section class="wg-loupe" aria-label={`Inside ${pathOf(model, focus)}`}>
      <Head model={model} focus={focus} goTo={goTo} />
      <div class="wg-loupe-graph">
        <Inside focus={focus} />
      </div>
      <Legend model={model} focus={focus} />
    </section>
  );
}

function Inside({ focus }: { focus: number }) {
  const store = useStore();
  const model = store.model.value;
  const open = store.open.value;
  const [asked, setAsked] = useState(-1);
  const boxes = useMemo(() => boxesIn(model, focus, open), [model, focus, open]);
  if (boxes > ASK_FIRST && asked !== focus) {
    return (
      <div class="wg-ask">
        <p>This opens {boxes.toLocaleString("en")} boxes.</p>
        <button type="button" class="wg-button" onClick={() => setAsked(focus)}>
          Draw them
        </button>
      </div>
    );
  }
  return <Drawn focus={focus} />;
}

function Drawn({ focus }: { focus: number }) {
  const store = useStore();
  const model = store.model.value;
  const open = store.open.value;
  const cache = useRef<LayoutCache>(new Map());
  const { box, width, height } = useBox();
  const picture = useMemo(
    () => (width === 0 ? null : pictureOf(model, { open, within: focus, metrics: SURVEY, measure: measure(), cache: cache.current, hideConstants: true, wrapWidth: width / READABLE })),
    [model, focus, open, width],
  );
  const born = useMemo(() => bornIn(model), [model]);
  const hulls = useMemo(() => (picture === null ? [] : hullsOf(model, picture.graph)), [picture]);
  const scenery = { cursor: store.cursor.value, selection: store.selection.value, hover: store.hover.value, born, lit: NOTHING };
  const drawn = picture === null ? null : displayList({ ...picture, nodes: nodeLooks(model, picture, scenery), edges: edgeLooks(model, picture, scenery), hulls });
  const items = picture?.graph.items ?? [];
  const selectionOf = (target: Target | null): Selection => {
    if (target === null || picture === null) return null;
    if (target.kind === "item" || target.kind === "header") return itemSelection(items[target.item] as Item);
    return { kind: "edge", row: (picture.graph.edges[target.edge]?.rows[0] as number) };
  };
  return (
    <div class="wg-loupe-box" ref={box}>
      {drawn !== null && picture !== null && (
        <Picture
          list={drawn}
          palette={PALETTES[store.theme.value]}
          fitKey={picture}
          focus={nearSelection(items, picture.layout.boxes, store.selection.peek(), drawn.bounds, width, height)}
          label={`Graph of ${pathOf(model, focus)}, ${picture.graph.boxes} boxes`}
          onPress={(target) => select(store, selectionOf(target))}
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

const NOTHING: ReadonlySet<number> = new Set();

function itemSelection(item: Item): Selection {
  return item.node >= 0 ? { kind: "node", row: item.node } : { kind: "scope", row: item.scope };
}

/** Where NaN is born, from the findings. */
function bornIn(model: Model): Map<number, string> {
  return new Map(model.trace.findings.filter((f) => f.rule.startsWith("nan") && f.node >= 0).map((f) => [f.node, "NaN born here"]));
}

/** What to fit: everything if it can be read then, else as much around the chosen box as can. */
function nearSelection(items: readonly Item[], boxes: readonly Rect[], selection: Selection, bounds: Rect, width: number, height: number): Rect {
  const scale = Math.min((width - 48) / bounds.width, (height - 48) / bounds.height);
  if (scale >= READABLE || width === 0) return bounds;
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

function useBox() {
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

function pathOf(model: Model, scope: number): string {
  return scopePath(model, scope).join(".") || model.trace.meta.title;
}

function Head({ model, focus, goTo }: { model: Model; focus: number; goTo: (scope: number) => void }) {
  const { scopes } = model.trace;
  const t = totalsOf(model);
  const like = focus === 0 ? 0 : scopes.hash.reduce((n, hash) => n + (hash === scopes.hash[focus] ? 1 : 0), 0) - 1;
  const path: number[] = [];
  for (let s = focus; s > 0; s = scopes.parent[s] as number) path.unshift(s);
  const ops = t.ops[focus] as number;
  return (
    <header class="wg-loupe-head">
      <nav aria-label="Where">
        {path.length === 0 && <b>{model.trace.meta.title}</b>}
        {path.map((s, i) => (
          <span key={s}>
            {i > 0 && <span class="wg-muted">.</span>}
            <button type="button" class="wg-crumb" aria-current={s === focus} onClick={() => goTo(s)}>
              {model.trace.strings[scopes.name[s] as number]}
            </button>
          </span>
        ))}
      </nav>
      <span class="wg-muted">
        {ops.toLocaleString("en")} op{ops === 1 ? "" : "s"}
        {like > 0 && `, same shape as the other ${like}`}
      </span>
      <span class="wg-muted wg-mono wg-loupe-shape">{entering(model, focus)}</span>
    </header>
  );
}

/** dtype and shape of the largest value that comes in. */
export function entering(model: Model, scope: number): string {
  let best = -1;
  let most = 0;
  const { scope: scopeOf, op } = model.trace.nodes;
  for (let n = 0; n < model.nodes; n++) {
    if ((op[n] as number) < 0 || !within(model, scopeOf[n] as number, scope)) continue;
    for (const e of edgesAt(model.operands, n)) {
      const src = model.src[e] as number;
      if ((op[src] as number) < 0 && (model.trace.nodes.kind[src] as number) !== 0) continue;
      if (scope !== 0 && within(model, scopeOf[src] as number, scope)) continue;
      const size = shapeOf(model, src).reduce((a, b) => a * b, 1);
      if (size > most) {
        most = size;
        best = src;
      }
    }
  }
  return best < 0 ? "" : `${dtypeOf(model, best)} · ${shapeOf(model, best).join(" × ") || "scalar"}`;
}

function Legend({ model, focus }: { model: Model; focus: number }) {
  const broken = (totalsOf(model).badGradients[focus] as number) > 0;
  return (
    <footer class="wg-legend">
      <span class="wg-key-value">value</span>
      <span class="wg-key-gradient">gradient</span>
      {model.trace.kernels !== undefined && <span class="wg-key-kernel">one kernel</span>}
      {broken && <span class="wg-key-lost">gradient lost to NaN</span>}
    </footer>
  );
}
