/** The selected node in full: its numbers, its paths to the loss, where it came from, what the loss would do if it moved. */
import { select, useStore } from "../../state";
import { shownNumber, shownShape, subscript } from "../../format";
import { calledOf, localOf, namePart, numbersOf, plain, recordOf } from "../../formula/expression";
import { Formula, Name } from "../../formula/view";
import { consumersOf, dtypeOf, edgesAt, kindOf, opOf, shapeOf, symbolOf, type Model } from "../../trace/model";
import type { NodeKind } from "../../trace/types";
import { placeOf, Source, spanOf } from "../source";
import { KindBadge } from "../glyph";
import { Tensor } from "../tensor";
import { CurveSection } from "./curve";
import { canGuess, Guess } from "./guess";
import { LeafValue } from "./leaf_value";
import { PathsSection } from "./paths_section";
import { carries, edgeGradient, hasGradient, hasHanded, hasValue } from "./progress";
import { keptBy, lossPart } from "./telling";

export function LessonRight() {
  const store = useStore();
  const model = store.model.value;
  const at = store.selection.value;
  if (at?.kind === "edge") {
    return (
      <aside class="wg-right" aria-label="Selected edge">
        <EdgePanel edge={at.row} />
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
  const store = useStore();
  const guessing = store.guessing.value && canGuess(store.model.value, node);
  return (
    <>
      <Head node={node} />
      <Guess node={node} />
      {!guessing && <PathsSection node={node} />}
      <SourceSection node={node} />
      {!guessing && <CurveSection node={node} />}
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
              {leaf ? <LeafValue node={node} /> : hasValue(model, node, cursor) ? shownNumber(number) : <NotYet />}
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
        <>
          <Tensor node={node} gradient={false} />
          {model.gradientCode[node] !== 0 && (
            <>
              <h3 class="wg-grad">gradient</h3>
              <Tensor node={node} gradient={true} />
            </>
          )}
        </>
      )}
    </section>
  );
}

function NotYet() {
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

function SourceSection({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const own = spanOf(model, node);
  const used = own >= 0 ? [] : consumersOf(model, node);
  const live = store.last.value >= 0 ? model.trace.events.node[store.last.value] : -1;
  const user = used.find((row) => row === live) ?? used.find((row) => spanOf(model, row) >= 0);
  const span = own >= 0 ? own : user === undefined ? -1 : spanOf(model, user);
  const place = placeOf(model.trace, span);
  if (place === "") return null;
  return (
    <section class="wg-section">
      <h2>
        {own >= 0 ? "Where it came from" : "Where it is used"} <small>{place}</small>
      </h2>
      <Source trace={model.trace} span={span} />
    </section>
  );
}

// -- edges

function EdgePanel({ edge }: { edge: number }) {
  const store = useStore();
  const model = store.model.value;
  const numbers = store.numbers.value;
  const cursor = store.cursor.value;
  const [source, node, slot] = [model.src[edge] as number, model.dst[edge] as number, model.slot[edge] as number];
  const value = numbers.value(source);
  const slope = numbers.slope(edge);
  const back = edgeGradient(model, numbers, edge);
  const local = localOf(model, node, slot);
  const filled = localOf(model, node, slot, (row) => shownNumber(numbers.value(row) ?? Number.NaN));
  return (
    <>
      <section class="wg-section wg-node-head">
        <header>
          <div>
            <h1>
              <Formula parts={[namePart(model, source)]} /> → <Formula parts={[namePart(model, node)]} />
            </h1>
            <p class="wg-muted">
              <Formula parts={[namePart(model, node)]} /> = <Formula parts={recordOf(model, node)} />
            </p>
          </div>
        </header>
        <dl class="wg-facts">
          <div>
            <dt>value, out</dt>
            <dd>
              {value === null ? (
                shownShape(shapeOf(model, source))
              ) : hasValue(model, source, cursor) ? (
                shownNumber(value)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
          {slope !== null && (
            <div>
              <dt>
                local derivative{" "}
                <span class="wg-derivative">
                  ∂<Formula parts={[namePart(model, node)]} />
                  /∂
                  <Formula parts={[namePart(model, source)]} />
                </span>
              </dt>
              <dd>
                {local !== null && plain(local) !== shownNumber(slope) && (
                  <>
                    <Formula parts={local} /> ={" "}
                  </>
                )}
                {filled !== null && plain(filled) !== shownNumber(slope) && plain(filled) !== plain(local ?? []) && (
                  <>
                    <Formula parts={filled} /> ={" "}
                  </>
                )}
                {shownNumber(slope)}
              </dd>
            </div>
          )}
          <div>
            <dt>gradient, home</dt>
            <dd class="wg-grad">
              {!carries(model, edge) ? (
                "none flows here"
              ) : back === null ? (
                ""
              ) : hasHanded(model, edge, cursor) ? (
                shownNumber(back)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
        </dl>
        {value !== null && slope !== null && numbersOf(model, node, () => "").length > 0 && (
          <p class="wg-aside">
            What arrives at <Formula parts={[namePart(model, node)]} /> is multiplied by the local derivative on its way
            to <Formula parts={[namePart(model, source)]} />.
          </p>
        )}
      </section>
      <SourceSection node={node} />
    </>
  );
}
