/** One node: what it is, its value and gradient, what it is made from and what is made from it, what the tape keeps for it. */
import {
  consumersOf,
  dtypeOf,
  flopsOf,
  kindOf,
  nameOf,
  opOf,
  operandsOf,
  originOf,
  recordedGradient,
  recordedValue,
  scopePath,
  shapeOf,
  type Model,
} from "../../trace/model";
import { reveal, seek, useStore } from "../../state";
import { shownBytes, shownMany, shownNumber, shownShape } from "../../format";
import { placeOf, Source, spanOf } from "../source";
import { Tensor } from "../tensor";
import { OriginSection } from "./origin";
import { Replay } from "./replay";
import { Fact, Said } from "./said";

const SHOWN = 8;

export function NodePanel({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const { trace } = model;
  const op = trace.nodes.op[node] as number;
  const name = nameOf(model, node);
  const say = op < 0 ? "" : (trace.ops.say[op] ?? "");
  const span = spanOf(model, node);
  const path = scopePath(model, trace.nodes.scope[node] as number).join(".");
  return (
    <>
      <section class="wg-section wg-finding-head">
        <h1>{op < 0 ? name || kindOf(model, node) : opOf(model, node)}</h1>
        <p class="wg-muted">{[path, op < 0 ? kindOf(model, node) : name, dtypeOf(model, node), shownShape(shapeOf(model, node))].filter((s) => s !== "").join(" · ")}</p>
        {say !== "" && (
          <p>
            <Said text={say.replaceAll("*", "")} />
          </p>
        )}
      </section>
      <OriginSection origin={originOf(model, "nodes", node)} />
      <Passes model={model} node={node} />
      <Links title="Operands" model={model} nodes={operandsOf(model, node)} />
      <Links title="Consumers" model={model} nodes={consumersOf(model, node)} />
      {model.events > 0 && (
        <section class="wg-section">
          <h2>On the tape</h2>
          <Moment label="made" at={model.forwardAt[node] as number} seekTo={(k) => seek(store, k + 1)} />
          <Moment label="gradient handed on" at={model.backwardAt[node] as number} seekTo={(k) => seek(store, k + 1)} />
          {op >= 0 && <Fact name="work">{shownMany(flopsOf(model, node))}flops</Fact>}
          <Kept model={model} node={node} />
          <KernelOf model={model} node={node} />
        </section>
      )}
      {placeOf(trace, span) !== "" && (
        <section class="wg-section">
          <h2>
            Where it came from <small>{placeOf(trace, span)}</small>
          </h2>
          <Source trace={trace} span={span} />
        </section>
      )}
      <Replay node={node} span={span} />
    </>
  );
}

/** Value and gradient: side by side where they are single numbers, else what is known of their elements. */
function Passes({ model, node }: { model: Model; node: number }) {
  const value = recordedValue(model, node);
  const gradient = recordedGradient(model, node);
  if (value !== null || gradient !== null) {
    return (
      <section class="wg-section">
        <Fact name="value">{value === null ? "not recorded" : shownNumber(value)}</Fact>
        <Fact name="gradient" tone="wg-grad">
          {gradient === null ? "none" : shownNumber(gradient)}
        </Fact>
      </section>
    );
  }
  const known = (codes: Uint8Array) => (codes[node] as number) > 0;
  return (
    <>
      {known(model.valueCode) && (
        <section class="wg-section">
          <h2>
            Value <small class="wg-mono">{shownShape(shapeOf(model, node))}</small>
          </h2>
          <Tensor node={node} gradient={false} />
        </section>
      )}
      {known(model.gradientCode) && (
        <section class="wg-section">
          <h2>Gradient</h2>
          <Tensor node={node} gradient={true} />
        </section>
      )}
    </>
  );
}

function Links({ title, model, nodes }: { title: string; model: Model; nodes: readonly number[] }) {
  const store = useStore();
  if (nodes.length === 0) return null;
  return (
    <section class="wg-section">
      <h2>
        {title} <small class="wg-mono">{nodes.length}</small>
      </h2>
      <ul class="wg-links">
        {nodes.slice(0, SHOWN).map((n, i) => (
          <li key={`${n}.${i}`}>
            <button type="button" onClick={() => reveal(store, { kind: "node", row: n })}>
              <span>{nodeTitle(model, n)}</span>
              <small class="wg-muted">{shownShape(shapeOf(model, n))}</small>
            </button>
          </li>
        ))}
      </ul>
      {nodes.length > SHOWN && <p class="wg-muted">and {nodes.length - SHOWN} more</p>}
    </section>
  );
}

export function nodeTitle(model: Model, node: number): string {
  const name = nameOf(model, node);
  const op = opOf(model, node);
  return kindOf(model, node) === "op" || kindOf(model, node) === "root" ? (name === "" || name === op ? op : `${name} = ${op}`) : name || op;
}

function Moment({ label, at, seekTo }: { label: string; at: number; seekTo: (event: number) => void }) {
  return (
    <Fact name={label}>
      {at < 0 ? (
        "·"
      ) : (
        <button type="button" class="wg-link" onClick={() => seekTo(at)}>
          step {(at + 1).toLocaleString("en")}
        </button>
      )}
    </Fact>
  );
}

function Kept({ model, node }: { model: Model; node: number }) {
  const { buffers, saved } = model.trace;
  let bytes = 0;
  for (let b = 0; b < buffers.node.length; b++) if (buffers.node[b] === node && buffers.class[b] === 1) bytes += buffers.bytes[b] as number;
  const values = saved.value.filter((_, i) => saved.node[i] === node);
  return (
    <>
      {values.length > 0 && <Fact name="keeps">{values.map((v) => nameOf(model, v) || opOf(model, v)).join(", ")}</Fact>}
      {bytes > 0 && <Fact name="is kept for backward">{shownBytes(bytes)}</Fact>}
    </>
  );
}

function KernelOf({ model, node }: { model: Model; node: number }) {
  const store = useStore();
  const found = model.trace.kernels?.list.filter((k) => k.nodes.includes(node)) ?? [];
  return (
    <>
      {found.map((k) => (
        <Fact key={k.name} name="kernel">
          <button type="button" class="wg-link" onClick={() => (store.tab.value = "kernels")}>
            {k.name}
          </button>
        </Fact>
      ))}
    </>
  );
}
