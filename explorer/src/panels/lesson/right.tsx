/** The selected node in full: its numbers, its paths to the loss, where it came from, what the loss would do if it moved. */
import { select, useStore } from "../../state";
import { shownNumber, shownShape, subscript } from "../../format";
import { calledOf, namePart, recordOf } from "../../formula/expression";
import { Formula, Name } from "../../formula/view";
import { about, From } from "../../parts";
import { dtypeOf, edgesAt, kindOf, opOf, shapeOf, symbolOf, type Model } from "../../trace/model";
import type { NodeKind } from "../../trace/types";
import { KindBadge } from "../glyph";
import { hasGradient, hasValue } from "./progress";
import { keptBy, lossPart } from "./telling";

export function LessonRight() {
  const store = useStore();
  const model = store.model.value;
  const at = store.selection.value;
  if (at?.kind === "edge") {
    return (
      <aside class="wg-right" aria-label="Selected edge">
        <From part={about}>{({ EdgePanel }) => <EdgePanel edge={at.row} />}</From>
      </aside>
    );
  }
  const node = shownNode(model, at?.kind === "node" ? at.row : -1, store.last.value);
  return (
    <aside class="wg-right" aria-label="Selected node">
      {node >= 0 && <NodeSections key={node} node={node} />}
    </aside>
  );
}

/** The selected node, else the one at which something happened last, else the loss. */
function shownNode(model: Model, selected: number, last: number): number {
  if (selected >= 0) return selected;
  const happened = last >= 0 ? (model.trace.events.node[last] as number) : -1;
  return happened >= 0 ? happened : (model.trace.meta.roots[0] ?? -1);
}

function NodeSections({ node }: { node: number }) {
  return (
    <>
      <Head node={node} />
      <From part={about}>{({ AboutNode }) => <AboutNode node={node} />}</From>
    </>
  );
}

const KINDS: Record<NodeKind, string> = {
  input: "Input",
  param: "Parameter",
  const: "Constant",
  op: "Computation",
  root: "Result",
};

function Head({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const kind = kindOf(model, node);
  const called = calledOf(model, node);
  const leaf = edgesAt(model.operands, node).length === 0;
  const shape = shapeOf(model, node);
  const number = store.numbers.value.value(node);
  const gradient = store.numbers.value.gradient(node);
  const cursor = store.cursor.value;
  const single = number !== null;
  const facts = [dtypeOf(model, node), shownShape(shape), leaf ? "leaf" : opOf(model, node)];
  return (
    <section class="wg-section wg-node-head">
      <header>
        <KindBadge
          kind={kind}
          symbol={
            kind === "op"
              ? symbolOf(model, node)
              : short(called.name) + (called.name.length > 1 ? "" : subscript(called.index))
          }
        />
        <div>
          <h1>
            {KINDS[kind]} <Name {...called} />
          </h1>
          <p class="wg-muted">{facts.join(" · ")}</p>
        </div>
      </header>
      <dl class="wg-facts">
        {!leaf && (
          <div>
            <dt>record</dt>
            <dd>
              <Formula parts={recordOf(model, node)} onSelect={(row) => select(store, { kind: "node", row })} />
            </dd>
          </div>
        )}
        {single && (
          <div>
            <dt>value</dt>
            <dd>
              {leaf ? (
                <From part={about} until={shownNumber(number)}>
                  {({ LeafValue }) => <LeafValue node={node} />}
                </From>
              ) : hasValue(model, node, cursor) ? (
                shownNumber(number)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
        )}
        {single && (
          <div>
            <dt>
              gradient{" "}
              {model.trace.meta.roots.length > 0 && (
                <span class="wg-derivative">
                  ∂<Formula parts={[lossPart(model)]} />
                  /∂
                  <Formula parts={[namePart(model, node)]} />
                </span>
              )}
            </dt>
            <dd class="wg-grad">
              {gradient === null ? (
                <span class="wg-muted">none</span>
              ) : hasGradient(model, node, cursor) ? (
                shownNumber(gradient)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
        )}
        <Kept node={node} />
      </dl>
      {!single && (
        <From part={about}>
          {({ Tensor }) => (
            <>
              {hasValue(model, node, cursor) ? <Tensor node={node} gradient={false} /> : <NotYet />}
              {model.gradientCode[node] !== 0 && (
                <>
                  <h3 class="wg-grad">gradient</h3>
                  {hasGradient(model, node, cursor) ? <Tensor node={node} gradient={true} /> : <NotYet />}
                </>
              )}
            </>
          )}
        </From>
      )}
    </section>
  );
}

export function NotYet() {
  return <span class="wg-muted">not yet</span>;
}

function short(name: string): string {
  const last = name.slice(name.lastIndexOf(".") + 1);
  return last.length > 4 ? `${last.slice(0, 3)}…` : last;
}

function Kept({ node }: { node: number }) {
  const model = useStore().model.value;
  const kept = keptBy(model, node);
  if (kept.length === 0) return null;
  return (
    <div>
      <dt>kept for backward</dt>
      <dd>
        {kept.map((row, i) => (
          <span key={row}>
            {i > 0 && ", "}
            <Formula parts={[namePart(model, row)]} />
          </span>
        ))}
      </dd>
    </div>
  );
}
