/** The Tape tab: everything that was recorded, in order; values fill it downwards, gradients back upwards. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { shownBytes, shownNumber, shownShape } from "../format";
import { recordsOf, seenIn } from "../fold/copies";
import { calledOf, namePart, recordOf } from "../formula/expression";
import { Formula, Name } from "../formula/view";
import { KindGlyph } from "../panels/glyph";
import { Copied } from "../panels/lesson/left";
import { itemBytes, keepingOf, sizeOf } from "../panels/lesson/keeping";
import { hasGradient, hasTurned, hasValue } from "../panels/lesson/progress";
import { placeOf, spanOf } from "../panels/source";
import { seek, select, useStore } from "../state";
import { rmsOfCode } from "../trace/decode";
import { dtypeOf, edgesAt, kindOf, opOf, phaseAt, recordedSize, shapeOf, type Model } from "../trace/model";
import { ROW, scrolledTo, visibleRows } from "./tape/rows";

export function TapeView() {
  const store = useStore();
  const model = store.model.value;
  const cursor = store.cursor.value;
  const frame = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 800 });
  const kept = useMemo(() => keptByNode(model), [model]);
  const held = useMemo(() => keepingOf(model), [model]);
  const last = store.last.value;
  const current = last >= 0 ? seenIn(model, model.trace.events.node[last] as number) : -1;
  const rows = recordsOf(model);
  const at = store.selection.value;
  const selected = at?.kind === "node" ? seenIn(model, at.row) : -1;
  useFollow(frame, current < 0 ? -1 : placeIn(rows, current));
  useFollow(frame, selected < 0 ? -1 : placeIn(rows, selected));
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const measure = () => setScroll({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const { first, end } = visibleRows(scroll.top, scroll.height, rows.length);
  const amount = held.held[cursor] ?? 0;
  return (
    <div class="wg-tape-view">
      <header>
        <h1>Tape</h1>
        <p class="wg-muted">
          {hasTurned(model, cursor)
            ? "Read back from the last record to the first."
            : "Written record by record, each after its operands."}{" "}
          Held for the way back:{" "}
          <b>{held.unit === "bytes" ? shownBytes(amount) : `${amount} ${amount === 1 ? "value" : "values"}`}</b>.
        </p>
      </header>
      <div
        class="wg-tape-scroll"
        ref={frame}
        tabIndex={0}
        role="table"
        aria-label="Tape"
        aria-rowcount={rows.length + 1}
        onScroll={(event) =>
          setScroll({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })
        }
      >
        <div class="wg-tape-row wg-tape-head" role="row" aria-rowindex={1}>
          <span role="columnheader">#</span>
          <span role="columnheader">record</span>
          <span role="columnheader">type</span>
          <span role="columnheader">value ↓</span>
          <span role="columnheader" class="wg-grad">
            gradient ↑
          </span>
          <span role="columnheader">keeps for backward</span>
          <span role="columnheader">from</span>
        </div>
        <div style={{ height: `${rows.length * ROW}px`, position: "relative" }} role="rowgroup">
          <div style={{ position: "absolute", insetInline: 0, top: `${first * ROW}px` }}>
            {Array.from(rows.subarray(first, end), (node, i) => (
              <TapeRow
                key={node}
                node={node}
                place={first + i}
                kept={kept.get(node) ?? NONE}
                current={current === node}
                selected={selected === node}
              />
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}

const NONE: readonly number[] = [];

/** Scrolls to a row whenever it becomes another one. */
function useFollow(frame: { readonly current: HTMLDivElement | null }, row: number): void {
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null || row < 0) return;
    element.scrollTop = scrolledTo(row, element.scrollTop, element.clientHeight - ROW);
  }, [frame, row]);
}

function keptByNode(model: Model): Map<number, number[]> {
  const { node, value } = model.trace.saved;
  const kept = new Map<number, number[]>();
  node.forEach((keeper, i) => {
    const list = kept.get(keeper) ?? [];
    list.push(value[i] as number);
    kept.set(keeper, list);
  });
  return kept;
}

/** The place of a node among the rows. */
function placeIn(rows: Int32Array, node: number): number {
  return Math.max(0, rows.indexOf(node));
}

interface RowProps {
  readonly node: number;
  readonly place: number;
  readonly kept: readonly number[];
  readonly current: boolean;
  readonly selected: boolean;
}

function TapeRow({ node, place, kept, current, selected }: RowProps) {
  const store = useStore();
  const model = store.model.value;
  const cursor = store.cursor.value;
  const numbers = store.numbers.value;
  const there = hasValue(model, node, cursor);
  const flowed = hasGradient(model, node, cursor);
  const back = current && phaseAt(model, cursor - 1) === "backward";
  const leaf = edgesAt(model.operands, node).length === 0;
  const states = [
    "wg-tape-row",
    there ? "has-value" : "",
    flowed ? "has-gradient" : "",
    current ? (back ? "is-current is-back" : "is-current") : "",
    selected ? "is-selected" : "",
  ];
  const go = () => {
    select(store, { kind: "node", row: node });
    const time = (hasTurned(model, cursor) ? model.backwardAt[node] : -1) as number;
    const made = model.forwardAt[node] as number;
    if (time >= 0 || made >= 0) seek(store, (time >= 0 ? time : made) + 1);
  };
  return (
    <div
      class={states.join(" ")}
      role="row"
      aria-rowindex={place + 2}
      aria-current={current ? "step" : undefined}
      onClick={go}
    >
      <span role="cell" class="wg-tape-lanes wg-mono">
        {place}
      </span>
      <span role="cell" class="wg-tape-record">
        <KindGlyph kind={kindOf(model, node)} />
        <button type="button" onClick={(event) => (event.stopPropagation(), go())}>
          <Name {...calledOf(model, node)} />
          {!leaf && (
            <>
              {" = "}
              <Formula parts={recordOf(model, node)} />
            </>
          )}
        </button>
        <small class="wg-muted">{leaf ? "" : opOf(model, node)}</small> <Copied node={node} brief={true} />
      </span>
      <span role="cell" class="wg-muted">
        {shapeOf(model, node).length === 0 ? dtypeOf(model, node) : shownShape(shapeOf(model, node))}
      </span>
      <span role="cell" class="wg-num">
        {there && <Amount number={numbers.value(node)} size={recordedSize(model, node, false)} code={model.valueCode[node] ?? 0} />}
      </span>
      <span role="cell" class="wg-num wg-grad">
        {flowed && <Amount number={numbers.gradient(node)} size={recordedSize(model, node, true)} code={model.gradientCode[node] ?? 0} />}
      </span>
      <span role="cell" class="wg-tape-kept">
        <Kept kept={kept} />
      </span>
      <span role="cell" class="wg-muted">
        {lineOf(model, node)}
      </span>
    </div>
  );
}

/** "lesson.py:7", or the line alone where there is one file. */
function lineOf(model: Model, node: number): string {
  const span = spanOf(model, node);
  const place = placeOf(model.trace, span);
  return place !== "" && model.trace.files.length === 1 ? `line ${model.trace.spans.line0[span]}` : place;
}

/** A number, or for a tensor its size; where that is known for drawing only, as large documents have it, about what it is. */
function Amount({ number, size, code }: { number: number | null; size: number | null; code: number }) {
  if (number !== null) return <span class={Number.isFinite(number) ? "" : "wg-bad"}>{shownNumber(number)}</span>;
  if (size !== null) return <span title="the root mean square of its elements">{shownNumber(size, 3)}</span>;
  const about = rmsOfCode(code);
  if (about === null) return null;
  return (
    <span class={Number.isFinite(about) ? "" : "wg-bad"} title="about the root mean square of its elements">
      {Number.isFinite(about) ? `~${shownNumber(about, 1)}` : shownNumber(about)}
    </span>
  );
}

/** What a record keeps, by name, and its bytes. */
function Kept({ kept }: { kept: readonly number[] }) {
  const model = useStore().model.value;
  if (kept.length === 0) return null;
  const bytes = kept.reduce((sum, value) => sum + sizeOf(model, value) * itemBytes(dtypeOf(model, value)), 0);
  return (
    <>
      {kept.slice(0, 3).map((value, i) => (
        <span key={value}>
          {i > 0 && ", "}
          <Formula parts={[namePart(model, value)]} />
        </span>
      ))}
      {kept.length > 3 && ` and ${kept.length - 3} more`} <small class="wg-muted">{shownBytes(bytes)}</small>
    </>
  );
}
