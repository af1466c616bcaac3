/** What ran together in blocks of batching: kernels in their order, the cells, and what was left out and why. */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shownNumber, shownPlural } from "../../format";
import { placeOf, Source } from "../../panels/source";
import type { Batched, Trace } from "../../trace/types";
import { barOf, batchedSums, cellTotals, mostRows, toldWays, type CellTotal } from "./batched";

/** Kernels, and reasons, listed at once; more on demand. */
const PAGE = 200;

export function BatchedView({ trace, batched }: { trace: Trace; batched: Batched }) {
  const chosen = useSignal(-1);
  const sums = useMemo(() => batchedSums(batched), [batched]);
  const kernels = batched.run.length;
  return (
    <div class="wg-view wg-parallel wg-batched" tabIndex={0} aria-label="Parallel">
      <header class="wg-view-head">
        <h2>
          {shownPlural(sums.calls, "call")} in {shownPlural(kernels, "kernel")}
        </h2>
        <span class="wg-muted">
          {toldWays(batched)}
          {kernels > 0 && ` · ${shownNumber(sums.calls / kernels, 3)} calls a kernel · inputs of kernels: ${shownCounts(sums)}`}
        </span>
      </header>
      <div class="wg-batched-body">
        <section>
          <h3>
            {chosen.value < 0 ? (
              "Kernels in their order"
            ) : (
              <>
                Kernels of {batched.cells[chosen.value]}{" "}
                <button type="button" class="wg-link" onClick={() => (chosen.value = -1)}>
                  all kernels
                </button>
              </>
            )}
          </h3>
          {kernels === 0 ? <p class="wg-muted">No call was deferred.</p> : <KernelRows batched={batched} chosen={chosen.value} />}
        </section>
        <div>
          {kernels > 0 && <Cells totals={cellTotals(batched)} chosen={chosen.value} choose={(cell) => (chosen.value = chosen.value === cell ? -1 : cell)} />}
          <Left trace={trace} batched={batched} />
        </div>
      </div>
    </div>
  );
}

function shownCounts({ gathered, sliced }: { gathered: number; sliced: number }): string {
  return `${gathered.toLocaleString("en")} gathered, ${sliced.toLocaleString("en")} in place`;
}

function KernelRows({ batched, chosen }: { batched: Batched; chosen: number }) {
  const shown = useSignal(PAGE);
  // Of a chosen cell its kernels alone.
  const rows = useMemo(() => batched.run.map((_, k) => k).filter((k) => chosen < 0 || batched.cell[k] === chosen), [batched, chosen]);
  const most = useMemo(() => mostRows(batched), [batched]);
  const runs = batched.ways.length > 1;
  return (
    <>
      <ul class="wg-key-row">
        <li class="wg-key-calls">calls</li>
        <li class="wg-key-filled">rows that fill the kernel up</li>
      </ul>
      <table class="wg-rows">
        <thead>
          <tr>
            <th scope="col">#</th>
            {runs && <th scope="col">run</th>}
            <th scope="col">cell</th>
            <th scope="col">calls</th>
            <th scope="col">rows</th>
            <th scope="col" class="wg-batched-bar">
              together
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown.value).map((k) => (
            <tr key={k}>
              <td class="wg-mono wg-muted">{k + 1}</td>
              {runs && <td class="wg-mono wg-muted">{(batched.run[k] as number) + 1}</td>}
              <td class="wg-batched-name" title={batched.cells[batched.cell[k] as number]}>
                {batched.cells[batched.cell[k] as number]}
              </td>
              <td class="wg-mono">{(batched.calls[k] as number).toLocaleString("en")}</td>
              <td class="wg-mono">{(batched.rows[k] as number).toLocaleString("en")}</td>
              <td class="wg-batched-bar">
                <Bar {...barOf(batched, k, most)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.value && (
        <button type="button" class="wg-button" onClick={() => (shown.value += PAGE)}>
          {(rows.length - shown.value).toLocaleString("en")} more
        </button>
      )}
    </>
  );
}

function Bar({ calls, filled }: { calls: number; filled: number }) {
  return (
    <span class="wg-batched-calls" aria-hidden="true">
      <i style={{ width: `${100 * calls}%` }} />
      <i class="is-filled" style={{ width: `${100 * filled}%` }} />
    </span>
  );
}

function Cells({ totals, chosen, choose }: { totals: readonly CellTotal[]; chosen: number; choose: (cell: number) => void }) {
  return (
    <section>
      <h3>By cell</h3>
      <table class="wg-rows">
        <thead>
          <tr>
            <th scope="col">cell</th>
            <th scope="col">calls</th>
            <th scope="col">kernels</th>
            <th scope="col">most together</th>
          </tr>
        </thead>
        <tbody>
          {totals.map(({ cell, name, calls, kernels, most }) => (
            <tr key={cell} class={cell === chosen ? "is-on" : ""}>
              <td class="wg-batched-cell" title={name}>
                <button type="button" class="wg-link" aria-pressed={cell === chosen} title="Its kernels alone" onClick={() => choose(cell)}>
                  {name}
                </button>
              </td>
              <td class="wg-mono">{calls.toLocaleString("en")}</td>
              <td class="wg-mono">{kernels.toLocaleString("en")}</td>
              <td class="wg-mono">{most.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Left({ trace, batched }: { trace: Trace; batched: Batched }) {
  const shown = useSignal(PAGE);
  const { left } = batched;
  return (
    <section>
      <h3>Not batched</h3>
      {left.length === 0 && <p class="wg-muted">Nothing was left out.</p>}
      <ul class="wg-batched-left">
        {left.slice(0, shown.value).map(({ name, why, calls, places, spans }, i) => (
          <li key={i}>
            <b>{name}</b>{" "}
            <span class="wg-muted">
              {shownPlural(calls, "call")}
              {spans.length > 0 && `, ${spans.map((span) => placeOf(trace, span)).join(", ")}`}
              {places > spans.length && spans.length > 0 && ` and ${shownPlural(places - spans.length, "more place")}`}
            </span>
            <p>{why}</p>
            {spans[0] !== undefined && <Source trace={trace} span={spans[0]} />}
          </li>
        ))}
      </ul>
      {left.length > shown.value && (
        <button type="button" class="wg-button" onClick={() => (shown.value += PAGE)}>
          {(left.length - shown.value).toLocaleString("en")} more
        </button>
      )}
    </section>
  );
}
