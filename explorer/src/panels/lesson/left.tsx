/** The tape, the key, and how gradients move. */
import { useEffect, useRef } from "preact/hooks";
import { middleCut, shownNumber, shownShape } from "../../format";
import { copiesInto, recordsOf, seenIn } from "../../fold/copies";
import { calledOf, namePart, plain, recordOf, type Part } from "../../formula/expression";
import { Formula, Name } from "../../formula/view";
import { edgesAt, kindOf, nameOf, phaseAt, shapeOf } from "../../trace/model";
import type { NodeKind, Pattern } from "../../trace/types";
import { select, useStore } from "../../state";
import { KindGlyph, PatternIcon } from "../glyph";
import { hasGradient, hasTurned, hasValue } from "./progress";
import { keptBy } from "./telling";

export function LessonLeft() {
  return (
    <aside class="wg-left" aria-label="Tape and key">
      <Tape />
      <Key />
      <Patterns />
    </aside>
  );
}

function Tape() {
  const store = useStore();
  const model = store.model.value;
  const cursor = store.cursor.value;
  const back = hasTurned(model, cursor);
  return (
    <section class="wg-section wg-tape">
      <h2>
        Tape <small>{back ? "read back up ↑" : "written down ↓"}</small>
      </h2>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span class="wg-hidden">node</span>
            </th>
            <th scope="col">
              <span class="wg-hidden">kind</span>
            </th>
            <th scope="col">record</th>
            <th scope="col">value ↓</th>
            <th scope="col" class="wg-grad">
              grad ↑
            </th>
          </tr>
        </thead>
        <tbody>
          {Array.from(recordsOf(model), (node) => (
            <Row key={node} node={node} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Letters that the columns have room for: of a number, of a name, of the path to it below. */
const FIGURES = 7;
const LETTERS = 8;
const PATH_LETTERS = 9;
/** Longer records are written smaller. */
const SHORT = 7;

/** A number in as many digits as there is room for: none is ever cut off. */
function figures(number: number): string {
  const texts = [3, 2, 1].map((digits) => shownNumber(number, digits));
  return texts.find((text) => text.length <= FIGURES) ?? number.toExponential(0).replace("e+", "e").replaceAll("-", "−");
}

/** Of a path its last part, "w[0]" for "layers[0].w[0]"; long ones begin and end in what tells them apart. */
function cutShort(part: Part): Part {
  if (part.kind === "group") return { ...part, parts: part.parts.map(cutShort) };
  if (part.kind !== "name") return part;
  return { ...part, name: middleCut(part.name.slice(part.name.lastIndexOf(".") + 1), LETTERS) };
}

/** Where a leaf stands in its model: "…ayers[0][1]"; nothing for a name without a path. */
function Path({ name }: { name: string }) {
  const path = name.slice(0, Math.max(0, name.lastIndexOf(".")));
  if (path === "") return null;
  return <small title={name}>{path.length <= PATH_LETTERS ? path : `…${path.slice(1 - PATH_LETTERS)}`}</small>;
}

function Row({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const cursor = store.cursor.value;
  const numbers = store.numbers.value;
  const last = store.last.value;
  const current = last >= 0 && seenIn(model, model.trace.events.node[last] as number) === node;
  const at = store.selection.value;
  const selected = at?.kind === "node" && seenIn(model, at.row) === node;
  const place = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    const row = place.current;
    const panel = row?.closest<HTMLElement>(".wg-left");
    if (!current || !row || !panel) return;
    // Only the panel scrolls: on small screens the page would.
    const over = row.getBoundingClientRect().bottom - panel.getBoundingClientRect().bottom;
    const under = panel.getBoundingClientRect().top - row.getBoundingClientRect().top;
    if (over > 0) panel.scrollTop += over;
    else if (under > 0) panel.scrollTop -= under;
  }, [current]);
  const leaf = edgesAt(model.operands, node).length === 0;
  const kept = keptBy(model, node);
  const backward = current && phaseAt(model, last) === "backward";
  const called = calledOf(model, node);
  const shape = shapeOf(model, node);
  const there = hasValue(model, node, cursor);
  const flowed = hasGradient(model, node, cursor);
  const shown = (number: number | null) =>
    number === null ? shape.join("×") : figures(number);
  const record = recordOf(model, node);
  const cut = record.map(cutShort);
  return (
    <tr
      ref={place}
      class={[current ? (backward ? "is-current is-back" : "is-current") : "", selected ? "is-selected" : ""].join(" ")}
      aria-current={current ? "step" : undefined}
      onClick={() => select(store, { kind: "node", row: node })}
      onMouseEnter={() => (store.hover.value = { kind: "node", row: node })}
      onMouseLeave={() => (store.hover.value = null)}
    >
      <td class="wg-tape-name">{leaf ? "·" : <Name {...called} />}</td>
      <td>
        <KindGlyph kind={kindOf(model, node)} />
      </td>
      <td class={["wg-record", plain(cut) === plain(record) ? "" : "is-cut", plain(cut).length > SHORT ? "is-long" : ""].join(" ")}>
        <button type="button" title={leaf ? nameOf(model, node) || plain(record) : plain(record)}>
          <Formula parts={cut} />
        </button>
        {leaf && <Path name={called.name} />}
        <Copied node={node} />
        {kept.length > 0 && (
          <small>
            kept{" "}
            {kept.map((row, i) => (
              <span key={row}>
                {i > 0 && ", "}
                <Formula parts={[cutShort(namePart(model, row))]} />
              </span>
            ))}
          </small>
        )}
      </td>
      <td class="wg-num">{there ? shown(numbers.value(node)) : ""}</td>
      <td class="wg-num wg-grad">{flowed ? shown(numbers.gradient(node)) : ""}</td>
    </tr>
  );
}

/** Operands that are made as large as the other one, on their way into a record: "b copied → [24]". */
export function Copied({ node, brief = false }: { node: number; brief?: boolean }) {
  const model = useStore().model.value;
  if (brief) {
    const told = copiesInto(model, node).map(({ from, copy }) => `${plain([namePart(model, from)])} copied → ${shownShape(shapeOf(model, copy))}`);
    return told.length === 0 ? null : (
      <small class="wg-muted" title={told.join(", ")} aria-label={told.join(", ")}>
        ⇉
      </small>
    );
  }
  return (
    <>
      {copiesInto(model, node).map(({ from, copy }) => (
        <small key={copy} class="wg-copied">
          <Formula parts={[cutShort(namePart(model, from))]} /> copied → {shownShape(shapeOf(model, copy))}
        </small>
      ))}
    </>
  );
}

const KINDS: readonly (readonly [NodeKind, string])[] = [
  ["input", "input"],
  ["param", "parameter"],
  ["op", "computation"],
  ["root", "loss (root)"],
];

function Key() {
  const store = useStore();
  const model = store.model.value;
  const constants = Array.from({ length: model.nodes }, (_, node) => kindOf(model, node)).includes("const");
  const kinds: readonly (readonly [NodeKind, string])[] = constants ? [...KINDS, ["const", "constant"]] : KINDS;
  return (
    <section class="wg-section">
      <h2>Key</h2>
      <ul class="wg-lesson-key">
        {kinds.map(([kind, name]) => (
          <li key={kind}>
            <KindGlyph kind={kind} size={17} /> {name}
          </li>
        ))}
        <li>
          <i class="wg-lane" /> value →
        </li>
        <li>
          <i class="wg-lane is-back" /> ← gradient
        </li>
      </ul>
    </section>
  );
}

const PATTERNS: readonly (readonly [Pattern, string])[] = [
  ["distribute", "+ copies to all"],
  ["swap", "× trades values"],
  ["route", "max picks one"],
  ["scale", "times the slope"],
  ["accumulate", "fan-out sums"],
];

function Patterns() {
  const store = useStore();
  const model = store.model.value;
  const last = store.last.value;
  const node = last >= 0 ? (model.trace.events.node[last] as number) : -1;
  const live =
    node >= 0 && phaseAt(model, last) === "backward"
      ? model.trace.ops.pattern[model.trace.nodes.op[node] as number]
      : null;
  return (
    <section class="wg-section">
      <h2>How gradients move</h2>
      <ul class="wg-patterns">
        {PATTERNS.map(([pattern, words]) => (
          <li key={pattern} class={live === pattern ? "is-live" : ""}>
            <PatternIcon pattern={pattern} size={19} />
            <b>{pattern}</b>
            <span>{words}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
