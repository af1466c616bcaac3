/** What the compiler made of the run: its plan in order, what each kernel computes, how near it comes to the best here. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { modelOf, opOf, symbolOf, type Model } from "../trace/model";
import type { KernelInfo, Kernels } from "../trace/types";
import { reveal, useStore } from "../state";
import { shownBytes, shownMany, shownMicros, shownPlural } from "../format";
import { useAsked } from "../panels/asking";
import { Fact } from "../panels/survey/said";
import { nodeTitle } from "../panels/survey/node_panel";
import { sorted, type Column } from "./kernels/order";
import { RooflineChart } from "./kernels/chart";
import { commonScope, roofline } from "./kernels/roofline";
import { lineage } from "./survey/totals";
import { ScopeGraph } from "./survey/scope_graph";

/** Steps listed at once; more on demand. */
const PAGE = 200;

export function KernelsView() {
  const store = useStore();
  const model = store.model.value;
  const { kernels } = model.trace;
  if (kernels === undefined) {
    return (
      <div class="wg-view">
        <Compile />
      </div>
    );
  }
  return <Compiled model={model} kernels={kernels} />;
}

/** A run that was too large to be compiled without being asked. */
function Compile() {
  const store = useStore();
  const [asked, ask] = useAsked("kernels", 0);
  const answer = asked.state === "there" ? asked.answer : null;
  useEffect(() => {
    if (answer?.kernels !== undefined) store.model.value = modelOf({ ...store.model.peek().trace, ...answer });
  }, [answer]);
  if (store.host.ask === undefined) {
    return (
      <p class="wg-muted">
        What the compiler makes of this run is not in the document: <code>wg.explore(..., compiled=True)</code> puts it there at any size.
      </p>
    );
  }
  return (
    <>
      <p class="wg-muted">This run was not compiled yet. A large one takes a minute or two.</p>
      <p>
        <button type="button" class="wg-button" disabled={asked.state === "waits"} onClick={ask}>
          {asked.state === "waits" ? "Compiling…" : "Compile"}
        </button>
      </p>
      {asked.state === "failed" && <p class="wg-bad">{asked.reason}</p>}
      {(asked.state === "nothing" || (answer !== null && answer.kernels === undefined)) && <p class="wg-muted">This run cannot be compiled.</p>}
    </>
  );
}

function Compiled({ model, kernels }: { model: Model; kernels: Kernels }) {
  const store = useStore();
  const { list, plan } = kernels;
  const chosen = useSignal(firstChosen(list, store.selection.peek()?.kind === "node" ? (store.selection.peek()?.row ?? -1) : -1));
  const hovered = useSignal(-1);
  const shown = useSignal(PAGE);
  const line = useMemo(() => roofline(list), [list]);
  const total = plan.micros.reduce<number>((sum, micros) => sum + (micros ?? 0), 0);
  const longest = plan.micros.reduce<number>((most, micros) => Math.max(most, micros ?? 0), 0);
  const sort = useSignal<Column>("order");
  const order = useMemo(() => sorted(kernels, sort.value), [kernels, sort.value]);
  const at = hovered.value >= 0 ? hovered.value : chosen.value;
  const kernel = list[at];
  const fused = list.reduce((sum, k) => sum + (k.nodes.length > 1 ? k.nodes.length : 0), 0);
  const choose = (k: number) => {
    chosen.value = k;
    const node = list[k]?.nodes[0] ?? list[k]?.gradients[0];
    if (node !== undefined) reveal(store, { kind: "node", row: node });
  };
  return (
    <div class="wg-view wg-kernels" tabIndex={0} aria-label="Kernels">
      <header class="wg-view-head">
        <h2>
          {shownPlural(plan.kernel.length, "step")}, {shownPlural(list.length, "kernel")}
        </h2>
        <span class="wg-muted">
          {total > 0 && `${shownMicros(total)} · `}
          {fused.toLocaleString("en")} operations fused · {kernels.target}
        </span>
      </header>
      <div class="wg-kernels-body">
        <div class="wg-plan">
          <table class="wg-rows">
            <thead>
              <tr>
                <Sort by={sort} column="order" name="#" />
                <th scope="col">kernel</th>
                <th scope="col">kind</th>
                <th scope="col">computes</th>
                <Sort by={sort} column="time" name="time" />
                <Sort by={sort} column="bytes" name="bytes" />
                <Sort by={sort} column="flops" name="flops" />
              </tr>
            </thead>
            <tbody onMouseLeave={() => (hovered.value = -1)}>
              {order.slice(0, shown.value).map((i) => [i, plan.kernel[i] as number] as const).map(([i, k]) => (
                <Step key={i} model={model} i={i} kernel={list[k] as KernelInfo} micros={plan.micros[i] ?? null} longest={longest} on={k === chosen.value} choose={() => choose(k)} hover={() => (hovered.value = k)} />
              ))}
            </tbody>
          </table>
          {plan.kernel.length > shown.value && (
            <button type="button" class="wg-button" onClick={() => (shown.value += PAGE)}>
              {(plan.kernel.length - shown.value).toLocaleString("en")} more
            </button>
          )}
        </div>
        <div class="wg-kernel-side">
          <section>
            <h3>Work per second over work per byte</h3>
            <RooflineChart line={line} list={list} chosen={at} choose={choose} />
          </section>
          {kernel !== undefined && <Chosen model={model} kernel={kernel} at={at} kernels={kernels} choose={choose} share={line.places.find((p) => p.kernel === at)?.share} />}
        </div>
      </div>
    </div>
  );
}

function Sort({ by, column, name }: { by: Signal<Column>; column: Column; name: string }) {
  const on = by.value === column;
  return (
    <th scope="col" aria-sort={!on ? "none" : column === "order" ? "ascending" : "descending"}>
      <button type="button" class="wg-link" title={column === "order" ? "In the order in which they run" : "The largest first"} onClick={() => (by.value = column)}>
        {name}
        {on && column !== "order" && " ↓"}
      </button>
    </th>
  );
}

/** The kernel of the selected node, else the one that takes longest. */
function firstChosen(list: readonly KernelInfo[], node: number): number {
  const of = list.findIndex((k) => k.nodes.includes(node) || k.gradients.includes(node));
  if (of >= 0) return of;
  return list.reduce((best, k, i) => ((k.micros ?? 0) > (list[best]?.micros ?? -1) ? i : best), 0);
}

interface StepProps {
  model: Model;
  i: number;
  kernel: KernelInfo;
  micros: number | null;
  longest: number;
  on: boolean;
  choose: () => void;
  hover: () => void;
}

function Step({ model, i, kernel, micros, longest, on, choose, hover }: StepProps) {
  return (
    <tr aria-selected={on} onClick={choose} onMouseEnter={hover}>
      <td class="wg-mono wg-muted">{i + 1}</td>
      <td class="wg-kernel-name" title={kernel.name}>
        <button type="button" class="wg-link" onFocus={hover}>
          {kernel.name}
        </button>
      </td>
      <td class="wg-muted">{kernel.kind}</td>
      <td class="wg-kernel-what">
        <span class={kernel.phase === "backward" ? "wg-grad" : ""}>{computes(model, kernel)}</span>
      </td>
      <td class="wg-mono">
        {micros === null ? "·" : shownMicros(micros)}{" "}
        <span class="wg-share">
          <i style={{ width: `${longest > 0 ? (100 * (micros ?? 0)) / longest : 0}%` }} />
        </span>
      </td>
      <td class="wg-mono">{shownBytes(kernel.bytes)}</td>
      <td class="wg-mono">{shownMany(kernel.flops)}</td>
    </tr>
  );
}

const FEW = 6;

/** "− x² Σ √" for values, "∂(÷)" for derivatives. */
function computes(model: Model, kernel: KernelInfo): string {
  const words = [...kernel.nodes.map((n) => symbolOf(model, n) || opOf(model, n)), ...kernel.gradients.map((n) => `∂${symbolOf(model, n) || opOf(model, n)}`)];
  return words.length <= FEW ? words.join(" ") : `${words.slice(0, FEW).join(" ")} … ${words.length}`;
}

/** Why the kernels that this one hands values to, or takes them from, are not one with it. */
function Apart({ kernels, at, choose }: { kernels: Kernels; at: number; choose: (kernel: number) => void }) {
  const neighbours = [
    ...(kernels.list[at]?.apart ?? []).map((a) => ({ ...a, way: "hands on to" })),
    ...kernels.list.flatMap((kernel, k) => (kernel.apart ?? []).filter((a) => a.kernel === at).map(({ why }) => ({ kernel: k, why, way: "takes from" }))),
  ];
  if (neighbours.length === 0) return null;
  return (
    <details class="wg-kernel-apart" open={neighbours.length <= 3}>
      <summary>Why not one with its {neighbours.length === 1 ? "neighbour" : `${neighbours.length} neighbours`}</summary>
      <ul>
        {neighbours.slice(0, 20).map(({ kernel, why, way }) => (
          <li key={`${way}${kernel}`}>
            {way}{" "}
            <button type="button" class="wg-link" onClick={() => choose(kernel)}>
              {kernels.list[kernel]?.name}
            </button>
            : {why}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Chosen({ model, kernel, at, kernels, share, choose }: { model: Model; kernel: KernelInfo; at: number; kernels: Kernels; share: number | undefined; choose: (kernel: number) => void }) {
  const store = useStore();
  const rows = useMemo(() => [...new Set([...kernel.nodes, ...kernel.gradients])], [kernel]);
  const { scope, parent } = { scope: model.trace.nodes.scope, parent: model.trace.scopes.parent };
  const focus = useMemo(() => commonScope(parent, rows.map((n) => scope[n] as number)), [rows]);
  const open = useMemo(() => new Set(rows.flatMap((n) => lineage(model, scope[n] as number))), [rows]);
  const lit = useMemo(() => new Set(rows), [rows]);
  const framed = useMemo(() => [kernel], [kernel]);
  const source = kernels.sources[kernel.code];
  const seconds = (kernel.micros ?? 0) / 1e6;
  return (
    <section class="wg-kernel-chosen" aria-label={kernel.name}>
      <h3>{kernel.name}</h3>
      <Fact name="computes">
        {shownPlural(kernel.nodes.length, "value")}, {shownPlural(kernel.gradients.length, "derivative")}
      </Fact>
      {seconds > 0 && (
        <Fact name="moves, computes">
          {shownMany(kernel.bytes / seconds)}B/s, {shownMany(kernel.flops / seconds)}flops/s
        </Fact>
      )}
      {share !== undefined && <Fact name="of the best here">{Math.round(100 * share)}%</Fact>}
      <Apart kernels={kernels} at={at} choose={choose} />
      <div class="wg-kernel-graph">
        <ScopeGraph key={at} focus={focus} open={open} lit={lit} kernels={framed} />
      </div>
      <ul class="wg-links">
        {rows.slice(0, 12).map((n) => (
          <li key={n}>
            <button type="button" onClick={() => reveal(store, { kind: "node", row: n })}>
              <span>{nodeTitle(model, n)}</span>
              <small class="wg-muted">{kernel.nodes.includes(n) ? "value" : "derivative"}</small>
            </button>
          </li>
        ))}
      </ul>
      {rows.length > 12 && <p class="wg-muted">and {rows.length - 12} more</p>}
      {source !== undefined && (
        <details>
          <summary>LLVM IR, {source.split("\n").length} lines</summary>
          <pre class="wg-ir" tabIndex={0}>
            {source}
          </pre>
        </details>
      )}
    </section>
  );
}
