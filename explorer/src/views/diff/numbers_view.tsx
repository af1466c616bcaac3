/** The table of two runs' numbers, by the largest difference of a kind. */
import { useSignal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { nodeTitle } from "../../panels/survey/node_panel";
import { reveal, useStore } from "../../state";
import { shownBytes, shownMicros, shownNumber } from "../../format";
import type { Model } from "../../trace/model";
import type { TraceDiff } from "../../trace/types";
import { pairNumbers, sortedPairs, type By } from "./numbers";

const SHOWN = 100;
const COLUMNS: readonly [By, string][] = [
  ["value", "values differ by"],
  ["gradient", "gradients by"],
  ["time", "time"],
  ["memory", "memory"],
];

export function Numbers({ a, b, diff }: { a: Model; b: Model; diff: TraceDiff }) {
  const store = useStore();
  const rows = useMemo(() => pairNumbers(a, b, diff), [a, b, diff]);
  const by = useSignal<By>("value");
  const sorted = useMemo(() => sortedPairs(rows, by.value), [rows, by.value]);
  if (rows.length === 0) return null;
  const part = (value: number | null) => (value === null ? "·" : value === 0 ? "same" : shownPart(value));
  return (
    <details class="wg-diff-numbers">
      <summary>
        In numbers: {rows.filter((row) => row.value !== null && row.value !== 0).length.toLocaleString("en")} values and{" "}
        {rows.filter((row) => row.gradient !== null && row.gradient !== 0).length.toLocaleString("en")} gradients of {rows.length.toLocaleString("en")} differ
      </summary>
      <table class="wg-rows">
        <thead>
          <tr>
            <Head by={by} column="order" name="node" />
            {COLUMNS.map(([column, name]) => (
              <Head key={column} by={by} column={column} name={name} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, SHOWN).map((row) => (
            <tr key={row.a}>
              <td>
                <button type="button" class="wg-link" onClick={() => reveal(store, { kind: "node", row: row.a })}>
                  {nodeTitle(a, row.a)}
                </button>
                {nodeTitle(b, row.b) !== nodeTitle(a, row.a) && <span class="wg-muted"> → {nodeTitle(b, row.b)}</span>}
              </td>
              <td class="wg-mono">{part(row.value)}</td>
              <td class="wg-mono">{part(row.gradient)}</td>
              <td class="wg-mono">{row.micros[0] + row.micros[1] === 0 ? "·" : `${shownMicros(row.micros[0])} → ${shownMicros(row.micros[1])}`}</td>
              <td class="wg-mono">{row.bytes[0] === row.bytes[1] ? "same" : `${shownBytes(row.bytes[0])} → ${shownBytes(row.bytes[1])}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length === 0 && <p class="wg-muted">No difference of this kind.</p>}
      {sorted.length > SHOWN && <p class="wg-muted">and {(sorted.length - SHOWN).toLocaleString("en")} more, smaller ones</p>}
    </details>
  );
}

/** Parts of a size: small ones as powers of ten, larger ones in percent. */
function shownPart(value: number): string {
  return value < 0.001 || !Number.isFinite(value) ? shownNumber(value, 3) : `${shownNumber(100 * value, 3)}%`;
}

function Head({ by, column, name }: { by: Signal<By>; column: By; name: string }) {
  const on = by.value === column;
  return (
    <th scope="col" aria-sort={!on ? "none" : column === "order" ? "ascending" : "descending"}>
      <button type="button" class="wg-link" onClick={() => (by.value = column)}>
        {name}
        {on && column !== "order" && " ↓"}
      </button>
    </th>
  );
}
