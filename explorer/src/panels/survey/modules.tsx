/** The tree of modules, with the number of operations and the size of gradients in each. */
import { useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { isWeights, kindOf, nameOf, opOf } from "../../trace/model";
import { reveal, select, toggleScope, useStore, type Store } from "../../state";
import { shownNumber } from "../../format";
import { logScale, totalsOf, type Totals } from "../../views/survey/totals";
import { around, neighbour, treeRows, type TreeRow } from "./tree";

const ROW = 25;
/** Rows beyond the visible ones that are there all the same, so that scrolling shows no gaps. */
const MARGIN = 12;

export function Modules() {
  const store = useStore();
  const unrolled = useSignal<ReadonlySet<number>>(new Set());
  const at = useSignal("s0");
  const top = useSignal(0);
  const height = useSignal(600);
  const box = useRef<HTMLDivElement>(null);
  // The keyboard is in the tree: its row keeps the focus when rows come and go around it, which moves elements.
  const focused = useRef(false);
  const drawing = useRef(false);
  drawing.current = true;
  const rows = useComputed(() => rowsNow(store, unrolled.value));
  const scale = useComputed(() => logScale(totalsOf(store.model.value).gradientSize));
  const list = rows.value;
  const chosen = Math.max(0, list.findIndex((row) => row.key === at.value));

  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    const watch = new ResizeObserver(() => (height.value = el.clientHeight));
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  // The row of what is selected elsewhere comes into sight.
  const selected = store.selection.value;
  useLayoutEffect(() => {
    const i = list.findIndex((row) => isSelected(store, row));
    if (i < 0) return;
    at.value = (list[i] as TreeRow).key;
    show(box.current, i);
  }, [selected, list.length]);

  useLayoutEffect(() => {
    drawing.current = false;
    if (focused.current && document.activeElement === document.body) focusRow(box.current);
  });

  const first = Math.max(0, Math.floor(top.value / ROW) - MARGIN);
  const last = Math.min(list.length, Math.ceil((top.value + height.value) / ROW) + MARGIN);

  const toggle = (row: TreeRow, open = !row.open) => {
    if (row.kind === "scope") toggleScope(store, row.scope, open);
    if (row.kind === "run") {
      const next = new Set(unrolled.value);
      if (open) next.add(row.scopes[0] as number);
      else next.delete(row.scopes[0] as number);
      unrolled.value = next;
    }
  };
  const choose = (row: TreeRow) => {
    // The chosen member of a run leaves it and has a row of its own.
    at.value = row.kind === "run" ? `s${row.scopes[0] as number}` : row.key;
    if (row.kind === "node") reveal(store, { kind: "node", row: row.node });
    else select(store, { kind: "scope", row: row.kind === "scope" ? row.scope : (row.scopes[0] as number) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = list[chosen];
    if (row === undefined || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "Enter") choose(row);
    else if (event.key === "ArrowRight" && !row.leaf && !row.open) toggle(row, true);
    else if (event.key === "ArrowLeft" && row.open && row.key !== "s0") toggle(row, false);
    else if (/^(Arrow(Up|Down|Left|Right)|Home|End)$/.test(event.key)) {
      const next = neighbour(list, chosen, event.key);
      at.value = (list[next] as TreeRow).key;
      show(box.current, next);
      requestAnimationFrame(() => focusRow(box.current));
    } else return;
    event.preventDefault();
  };

  return (
    <section class="wg-modules" aria-label="Modules">
      <h2>
        Modules
        <small class="wg-ops">{isWeights(store.model.value) ? "tensors" : "ops"}</small>
        <small class="wg-grad">{store.model.value.trace.meta.values && store.model.value.events > 0 ? "grad size" : ""}</small>
      </h2>
      <div
        class="wg-tree"
        role="tree"
        aria-label="Modules"
        ref={box}
        onKeyDown={onKeyDown}
        onFocusIn={() => (focused.current = true)}
        onFocusOut={() => (focused.current &&= drawing.current)}
        onScroll={(e) => (top.value = e.currentTarget.scrollTop)}
      >
        <div style={{ height: `${list.length * ROW}px` }}>
          {list.slice(first, last).map((row, i) => (
            <Row
              key={row.key}
              row={row}
              y={(first + i) * ROW}
              current={row.key === (list[chosen] as TreeRow).key}
              selected={isSelected(store, row)}
              store={store}
              scale={scale.value}
              choose={choose}
              toggle={toggle}
            />
          ))}
        </div>
      </div>
    </section>
  );
}

function rowsNow(store: Store, unrolled: ReadonlySet<number>): TreeRow[] {
  const model = store.model.value;
  const { findings } = model.trace;
  const selection = store.selection.value;
  const named = findings.filter((f) => f.severity === "error" && f.node >= 0).map((f) => f.node);
  const nodes = selection?.kind === "node" ? [...named, selection.row] : named;
  const apart = around(model, nodes);
  if (selection?.kind === "scope") apart.add(selection.row);
  const marked = [...new Set(nodes)].map((node) => ({ node, label: kindOf(model, node) === "op" ? opOf(model, node) : nameOf(model, node) || kindOf(model, node) }));
  return treeRows(model, { open: store.open.value, unrolled, marked, apart });
}

function isSelected(store: Store, row: TreeRow): boolean {
  const selected = store.selection.value;
  if (selected === null) return false;
  if (row.kind === "node") return selected.kind === "node" && selected.row === row.node;
  return row.kind === "scope" && selected.kind === "scope" && selected.row === row.scope;
}

function show(box: HTMLElement | null, i: number): void {
  if (box === null) return;
  if (i * ROW < box.scrollTop) box.scrollTop = i * ROW;
  else if ((i + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = (i + 1) * ROW - box.clientHeight;
}

function focusRow(box: HTMLElement | null): void {
  box?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
}

interface Sum {
  ops: number;
  size: number;
  bad: boolean;
}

function sumOf(store: Store, totals: Totals, row: TreeRow): Sum {
  if (row.kind === "node") {
    const error = store.model.value.trace.findings.some((f) => f.node === row.node && f.severity === "error");
    return { ops: 1, size: Number.NaN, bad: error };
  }
  const scopes = row.kind === "scope" ? [row.scope] : row.scopes;
  let ops = 0;
  let squares = 0;
  let bad = false;
  for (const s of scopes) {
    ops += (isWeights(store.model.value) ? totals.nodes[s] : totals.ops[s]) as number;
    squares += (totals.gradientSize[s] as number) ** 2;
    bad ||= (totals.badGradients[s] as number) > 0;
  }
  return { ops, size: Math.sqrt(squares / scopes.length), bad };
}

interface RowProps {
  row: TreeRow;
  y: number;
  current: boolean;
  selected: boolean;
  store: Store;
  scale: (size: number) => number;
  choose: (row: TreeRow) => void;
  toggle: (row: TreeRow) => void;
}

function Row({ row, y, current, selected, store, scale, choose, toggle }: RowProps) {
  const sum = sumOf(store, totalsOf(store.model.value), row);
  const times = row.kind === "node" ? 1 : row.times;
  const said = sum.bad ? "gradient has NaN" : sum.size > 0 ? `gradient size ${shownNumber(sum.size, 3)}` : "no gradient";
  return (
    <div
      class={`wg-tree-row${selected ? " is-selected" : ""}${sum.bad ? " is-bad" : ""}`}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={selected}
      {...(row.leaf ? {} : { "aria-expanded": row.open })}
      aria-label={`${row.label}${times > 1 ? ` times ${times}` : ""}, ${sum.ops.toLocaleString("en")} operation${sum.ops === 1 ? "" : "s"}, ${said}`}
      tabIndex={current ? 0 : -1}
      style={{ top: `${y}px`, "--wg-depth": String(row.depth) }}
      title={said}
      onClick={() => choose(row)}
      onDblClick={() => toggle(row)}
    >
      <span
        class={`wg-twist${row.leaf ? " is-leaf" : row.open ? " is-open" : ""}`}
        aria-hidden="true"
        onClick={(event) => {
          event.stopPropagation();
          toggle(row);
        }}
      />
      <span class="wg-tree-name">{row.label}</span>
      {times > 1 && <span class="wg-times">×{times}</span>}
      <span class="wg-tree-ops wg-mono">{sum.ops.toLocaleString("en")}</span>
      {(store.model.value.events > 0 || sum.bad) && (
        <span class="wg-bar">
          <i style={{ width: `${100 * (sum.bad ? 1 : scale(sum.size))}%` }} />
        </span>
      )}
    </div>
  );
}
