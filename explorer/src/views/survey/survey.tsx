/** The graph of a large run: the strip of its layers, and a loupe into the chosen one. */
import { useComputed, useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { MIDDLE, nextFound, reveal, select, useStore } from "../../state";
import { columnOfScope, stripOf, throughChain, type Strip } from "./strip";
import { within } from "./totals";
import { StripView } from "./strip_view";
import { fittingPart, focusFor, openAlike } from "./focus";
import { enoughOpen, openThatFits } from "./looks";
import { Loupe } from "./loupe";
import { insideOf, useBox, WHOLE } from "./scope_graph";
import type { LayoutCache } from "../../layout/nested";

/** Pixels that the strip and the loupe's frame take, and pixels per unit at which what is a little too large still counts as fitting. */
const [ABOVE, BESIDE, FITTING] = [340, 60, 0.42];
/** The same where there is no strip: then all of it is to be read at once. */
const [AROUND, BESIDES] = [160, 80];

export function SurveyGraph() {
  const store = useStore();
  const model = store.model.value;
  const root = useSignal(0);
  const strip = useMemo(() => stripOf(model, root.value), [model, root.value]);
  const focused = useRef(-1);
  const { box, width, height } = useBox();
  const cache = useRef<LayoutCache>(new Map());
  const alone = model.nodes <= MIDDLE;
  const focus = useMemo(() => {
    if (alone) return (focused.current = Math.max(0, focused.current));
    const selection = store.selection.value;
    const layer = focusFor(model, strip, focused.current, selection);
    if (width === 0) return layer;
    const isNew = layer !== focused.current && selection?.kind === "node" && within(model, model.trace.nodes.scope[selection.row] as number, layer);
    const fits = (scope: number, open: ReadonlySet<number>) => {
      const { bounds } = insideOf(model, scope, enoughOpen(model, scope, open), width, cache.current).layout;
      return Math.min((width - BESIDE) / bounds.width, (height - ABOVE) / bounds.height) >= FITTING;
    };
    return (focused.current = isNew ? fittingPart(model, layer, selection.row, fits) : layer);
  }, [model, strip, store.selection.value, width === 0]);
  const opened = (scope: number, open: ReadonlySet<number>) =>
    openThatFits(model, scope, open, (more) => {
      const { bounds } = insideOf(model, scope, more, width - 31, cache.current).layout;
      return Math.min((width - BESIDES) / bounds.width, (height - AROUND) / bounds.height) >= WHOLE;
    });
  const current = useComputed(() => {
    const node = store.last.value < 0 ? -1 : (model.trace.events.node[store.last.value] as number);
    return node < 0 ? -1 : (strip.columnOf[node] as number);
  });
  const found = useMemo(() => columnsWith(strip, store.found.value?.rows ?? []), [strip, store.found.value]);
  const chosen = columnOfScope(model, strip, focus);
  const goTo = (scope: number) => {
    store.open.value = openAlike(model, store.open.value, focused.current, scope);
    focused.current = scope;
    select(store, { kind: "scope", row: scope });
  };
  const choose = (i: number) => {
    const column = strip.columns[i];
    if (column === undefined) return;
    // A column that several layers share leads to the first, and from there to one after the other.
    const at = column.scopes.findIndex((s) => within(model, focused.current, s));
    const scope = column.scopes[(at + 1) % Math.max(1, column.scopes.length)];
    if (scope !== undefined) goTo(throughChain(model, scope));
    else if (column.nodes[0] !== undefined) reveal(store, { kind: "node", row: column.nodes[0] });
  };
  const enter = (i: number) => {
    const scope = strip.columns[i]?.scopes[0];
    if (scope !== undefined && (model.childScopes[scope] as number[]).length > 1) root.value = scope;
  };
  return (
    <div class="wg-survey" ref={box}>
      <div class={alone ? "wg-survey-head is-alone" : "wg-survey-head"}>
        {!alone && <h2>Layer strip</h2>}
        {root.value !== 0 && <Crumbs root={root.value} goTo={(s) => (root.value = s)} />}
        <Found />
        {!alone && model.trace.meta.values && <small class="wg-muted">size of values above, of gradients below</small>}
      </div>
      {width > 0 && !alone && (
        <StripView model={model} strip={strip} width={width} found={found} chosen={chosen} current={current.value} choose={choose} enter={enter} />
      )}
      {(width > 0 || !alone) && <Loupe focus={focus} goTo={goTo} opened={alone ? opened : undefined} />}
    </div>
  );
}

/** How many of some nodes stand in each column. */
function columnsWith(strip: Strip, rows: readonly number[]): Int32Array {
  const counts = new Int32Array(strip.columns.length);
  for (const row of rows) {
    const column = strip.columnOf[row] as number;
    if (column >= 0) counts[column]!++;
  }
  return counts;
}

function Found() {
  const store = useStore();
  const found = store.found.value;
  if (found === null) return null;
  return (
    <span class="wg-found" role="status">
      {found.rows.length.toLocaleString("en")} found: <b>{found.query}</b>
      <button type="button" class="wg-link" title="The one before (Shift+F)" onClick={() => nextFound(store, -1)}>
        before
      </button>
      <button type="button" class="wg-link" title="The next (F)" onClick={() => nextFound(store, 1)}>
        next
      </button>
      <button type="button" class="wg-link" title="Let go (Esc)" onClick={() => (store.found.value = null)}>
        let go
      </button>
    </span>
  );
}

function Crumbs({ root, goTo }: { root: number; goTo: (scope: number) => void }) {
  const { model } = useStore();
  const { scopes, strings, meta } = model.value.trace;
  const path: number[] = [];
  for (let s = root; s >= 0; s = scopes.parent[s] as number) path.unshift(s);
  return (
    <nav class="wg-crumbs" aria-label="Strip of">
      {path.map((s) => (
        <button key={s} type="button" class="wg-link" aria-current={s === root} onClick={() => goTo(s)}>
          {s === 0 ? meta.title : strings[scopes.name[s] as number]}
        </button>
      ))}
    </nav>
  );
}
