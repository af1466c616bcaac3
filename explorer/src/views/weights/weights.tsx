/** What a file holds: each tensor with its shape, bytes, range and distribution. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { dtypeOf, shapeOf, type Model } from "../../trace/model";
import { num } from "../../trace/decode";
import { select, useStore } from "../../state";
import { shownBytes, shownNumber, shownPlural, shownShape } from "../../format";
import { bars, ordered, weightsOf, type Order, type WeightRow } from "./rows";

const ROW = 34;
const MARGIN = 10;
const ORDERS: readonly (readonly [Order, string])[] = [
  ["name", "in the file's order"],
  ["bytes", "largest first"],
  ["size", "greatest values first"],
  ["bad", "NaN and infinities first"],
];

export function WeightsView() {
  const store = useStore();
  const model = store.model.value;
  const all = useMemo(() => weightsOf(model), [model]);
  const order = useSignal<Order>("name");
  const filter = useSignal("");
  const top = useSignal(0);
  const height = useSignal(800);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    const watch = new ResizeObserver(() => (height.value = el.clientHeight));
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  const rows = useMemo(() => {
    const wanted = filter.value.trim().toLowerCase();
    return ordered(wanted === "" ? all : all.filter((row) => row.path.toLowerCase().includes(wanted)), order.value);
  }, [all, order.value, filter.value]);
  // The row of what is selected elsewhere comes into sight.
  const selected = store.selection.value;
  useLayoutEffect(() => {
    const el = box.current;
    const at = selected?.kind === "node" ? rows.findIndex((row) => row.node === selected.row) : -1;
    if (el === null || at < 0) return;
    if (at * ROW < el.scrollTop || (at + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = Math.max(0, (at - 2) * ROW);
  }, [selected]);
  // Another order, or fewer rows, begin at the top.
  const settled = useRef(rows);
  useLayoutEffect(() => {
    if (settled.current !== rows && box.current !== null) box.current.scrollTop = 0;
    settled.current = rows;
  }, [rows]);
  const first = Math.max(0, Math.floor(top.value / ROW) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((top.value + height.value) / ROW) + MARGIN);
  const bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
  return (
    <div class="wg-view wg-weights">
      <div class="wg-weights-head">
        <h2>
          Weights <small class="wg-muted">{shownPlural(rows.length, "tensor")}, {shownBytes(bytes)}</small>
        </h2>
        <input type="search" placeholder="Filter by name" aria-label="Filter by name" value={filter.value} onInput={(e) => (filter.value = e.currentTarget.value)} />
        <select aria-label="Order" value={order.value} onChange={(e) => (order.value = e.currentTarget.value as Order)}>
          {ORDERS.map(([key, label]) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="wg-weights-row wg-weights-titles" aria-hidden="true">
        <span>name</span>
        <span>shape</span>
        <span>dtype</span>
        <span>bytes</span>
        <span>range</span>
        <span>distribution</span>
      </div>
      <div class="wg-weights-rows" ref={box} role="list" aria-label="Weights" onScroll={(e) => (top.value = e.currentTarget.scrollTop)}>
        <div style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(first, last).map((row, i) => (
            <Weight
              key={row.node}
              row={row}
              y={(first + i) * ROW}
              model={model}
              selected={selected?.kind === "node" && selected.row === row.node}
              choose={() => {
                store.finding.value = -1;
                select(store, { kind: "node", row: row.node });
              }}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

interface WeightProps {
  row: WeightRow;
  y: number;
  model: Model;
  selected: boolean;
  choose: () => void;
}

function Weight({ row, y, model, selected, choose }: WeightProps) {
  const { details } = row;
  const shape = shownShape(shapeOf(model, row.node));
  const range = details === null ? "" : `${shownNumber(num(details.min), 3)} … ${shownNumber(num(details.max), 3)}`;
  const bad = details === null ? "" : [details.nan > 0 ? `${details.nan} NaN` : "", details.inf > 0 ? `${details.inf} ∞` : ""].filter((s) => s !== "").join(", ");
  return (
    <div role="listitem" class="wg-weights-place" style={{ top: `${y}px` }}>
      <button type="button" class={`wg-weights-row${selected ? " is-selected" : ""}`} aria-pressed={selected} onClick={choose}>
        <span class="wg-weights-name" title={row.path}>
          <bdi>{row.path}</bdi>
        </span>
        <span class="wg-mono">{shape}</span>
        <span class="wg-mono wg-muted">{dtypeOf(model, row.node)}</span>
        <span class="wg-mono">{shownBytes(row.bytes)}</span>
        <span class={`wg-mono ${bad === "" ? "" : "wg-bad"}`}>{bad === "" ? range : bad}</span>
        <span>{details !== null && details.hist.length > 1 && <Spark row={row} />}</span>
      </button>
    </div>
  );
}

function Spark({ row }: { row: WeightRow }) {
  const { path, width, zero } = bars(row.details as NonNullable<WeightRow["details"]>);
  return (
    <svg class="wg-spark" viewBox={`0 0 ${width} 21`} preserveAspectRatio="none" aria-hidden="true">
      <path class="wg-hist-bars" d={path} />
      <path class="wg-axis" d={`M0 20.5H${width}`} />
      {zero !== null && <path class="wg-axis" d={`M${zero.toFixed(1)} 0V20`} stroke-dasharray="2 2" />}
    </svg>
  );
}
