/** What the ranks of a mesh do in a step: who computes, moves and waits when, and the nodes behind each part. */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shownBytes, shownMicros, shownPlural } from "../format";
import { Fact } from "../panels/survey/said";
import { nodeTitle } from "../panels/survey/node_panel";
import { reveal, useStore } from "../state";
import type { Model } from "../trace/model";
import type { Ranks } from "../trace/types";
import { RanksChart } from "./ranks/chart";
import { longest, totals, type Total } from "./ranks/lanes";

const KIND = ["computes", "moves", "waits"] as const;
/** Parts listed, and nodes of one. */
const PARTS = 30;
const NODES = 12;

export function RanksView() {
  const { model } = useStore();
  const { ranks } = model.value.trace;
  return ranks === undefined ? <p class="wg-view wg-muted">This document tells nothing of ranks.</p> : <Shown model={model.value} ranks={ranks} />;
}

function Shown({ model, ranks }: { model: Model; ranks: Ranks }) {
  const store = useStore();
  const chosen = useSignal(-1);
  const hovered = useSignal(-1);
  const rows = useMemo(() => totals(ranks), [ranks]);
  const most = useMemo(() => longest(ranks, PARTS), [ranks]);
  const slowest = rows.reduce((a, b) => (b.micros > a.micros ? b : a), rows[0] as Total);
  const at = hovered.value >= 0 ? hovered.value : chosen.value;
  const choose = (part: number) => {
    chosen.value = part;
    const node = ranks.nodes[part]?.[0];
    if (node !== undefined) reveal(store, { kind: "node", row: node });
  };
  return (
    <div class="wg-view wg-ranks" tabIndex={0} aria-label="Ranks">
      <header class="wg-view-head">
        <h2>{shownMicros(ranks.micros)} a step</h2>
        <span class="wg-muted">
          {ranks.mesh} · {share(slowest.micros - slowest.computing, slowest.micros)} of it waiting · {shownBytes(slowest.moved)} sent by a rank
        </span>
        <ul class="wg-ranks-legend">
          {KIND.map((name) => (
            <li key={name} class={`is-${name}`}>
              {name}
            </li>
          ))}
        </ul>
      </header>
      <RanksChart ranks={ranks} chosen={chosen.value} choose={choose} hover={(part) => (hovered.value = part)} />
      <div class="wg-ranks-body">
        <section class="wg-ranks-part" aria-live="polite">
          {at >= 0 ? <Part model={model} ranks={ranks} part={at} /> : <p class="wg-muted">Point at a part, or choose one: its nodes are shown in the graph.</p>}
          <h3>By ranks</h3>
          <Lanes rows={rows} />
        </section>
        <section class="wg-ranks-longest">
          <h3>The longest parts</h3>
          <table class="wg-rows">
            <thead>
              <tr>
                <th scope="col">part</th>
                <th scope="col">ranks</th>
                <th scope="col">time</th>
                <th scope="col">sent</th>
              </tr>
            </thead>
            <tbody>
              {most.map((k) => (
                <tr key={k} class={k === chosen.value ? "is-on" : ""} onClick={() => choose(k)}>
                  <td class="wg-ranks-label" title={ranks.label[k]}>
                    <button type="button" class="wg-link" onClick={() => choose(k)}>
                      {ranks.label[k]}
                    </button>
                  </td>
                  <td>{ranks.lanes[ranks.lane[k] as number]?.ranks}</td>
                  <td>{shownMicros((ranks.end[k] as number) - (ranks.start[k] as number))}</td>
                  <td>{(ranks.moved[k] as number) > 0 && shownBytes(ranks.moved[k] as number)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </div>
    </div>
  );
}

function Part({ model, ranks, part }: { model: Model; ranks: Ranks; part: number }) {
  const store = useStore();
  const nodes = ranks.nodes[part] as number[];
  const [from, to] = [ranks.start[part] as number, ranks.end[part] as number];
  return (
    <>
      <h3>{ranks.label[part]}</h3>
      <Fact name={KIND[ranks.kind[part] as number] as string}>{shownMicros(to - from)}</Fact>
      <Fact name="from, to">
        {from === 0 ? "0" : shownMicros(from)}, {shownMicros(to)}
      </Fact>
      {(ranks.moved[part] as number) > 0 && <Fact name="a rank sends">{shownBytes(ranks.moved[part] as number)}</Fact>}
      {nodes.length > 0 && (
        <p class="wg-ranks-nodes">
          {nodes.slice(0, NODES).map((node) => (
            <button key={node} type="button" class="wg-link" onClick={() => ((store.tab.value = "graph"), reveal(store, { kind: "node", row: node }))}>
              {nodeTitle(model, node)}
            </button>
          ))}
          {nodes.length > NODES && <span class="wg-muted">and {shownPlural(nodes.length - NODES, "more node")}</span>}
        </p>
      )}
    </>
  );
}

function Lanes({ rows }: { rows: readonly Total[] }) {
  return (
    <table class="wg-rows">
      <thead>
        <tr>
          <th scope="col">ranks</th>
          <th scope="col">computes</th>
          <th scope="col">waits</th>
          <th scope="col">sends</th>
          <th scope="col">memory</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.ranks}>
            <th scope="row">{row.ranks}</th>
            <td>{share(row.computing, row.micros)}</td>
            <td>{share(row.micros - row.computing, row.micros)}</td>
            <td>{shownBytes(row.moved)}</td>
            <td>{shownBytes(row.memory)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function share(part: number, whole: number): string {
  return `${Math.round((100 * part) / Math.max(1e-9, whole))}%`;
}
