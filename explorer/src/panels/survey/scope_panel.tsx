/** What a module comes to: counts, work, memory, time, and the gradients in it that deserve a look. */
import { isWeights, kindOf, nameOf, opOf, originOf, recordedSize, scopePath, shapeOf, type Model } from "../../trace/model";
import { useMemo } from "preact/hooks";
import { nodesWithin } from "../../fold/fold";
import { rmsOfCode } from "../../trace/decode";
import { reveal, select, useStore } from "../../state";
import { shownBytes, shownMany, shownNumber, shownShape, shownTime } from "../../format";
import { hasNaNGradient, othersLike, totalsOf } from "../../views/survey/totals";
import { bytesOf } from "../../views/weights/rows";
import { Inputs } from "./inputs";
import { OriginSection } from "./origin";
import { Fact, Said } from "./said";

const SHOWN = 6;

export function ScopePanel({ scope }: { scope: number }) {
  const store = useStore();
  const model = store.model.value;
  const t = totalsOf(model);
  const path = scopePath(model, scope);
  const { scopes, meta } = model.trace;
  const same = othersLike(model, scope);
  const worst = useMemo(() => worstGradients(model, scope, SHOWN), [model, scope]);
  const at = (column: Float64Array | Int32Array) => column[scope] as number;
  const whole = (n: number) => n.toLocaleString("en");
  return (
    <>
      <section class="wg-section wg-finding-head">
        <h1>{path[path.length - 1] ?? meta.title}</h1>
        <p class="wg-muted">
          {scope === 0 ? (isWeights(model) ? "the whole file" : "the whole run") : `${scopes.kind[scope]}${path.length > 1 ? ` in ${path.slice(0, -1).join(".")}` : ""}`}
          {scope > 0 && same > 0 && ` · same shape as ${same} other${same > 1 ? "s" : ""}`}
        </p>
        {scope === 0 && meta.error !== undefined && (
          <p class="wg-bad">
            {stoppedBy(meta.error)}
          </p>
        )}
        {!isWeights(model) && <Fact name="operations">{whole(at(t.ops))}</Fact>}
        <Fact name="parameters">{at(t.parameters) === 0 ? "none" : `${whole(at(t.parameters))} in ${whole(at(t.parameterTensors))}`}</Fact>
        {isWeights(model) && <Fact name="bytes">{shownBytes(nodesWithin(model, scope).reduce((sum, n) => sum + bytesOf(model, n), 0))}</Fact>}
        {at(t.flops) > 0 && <Fact name="work forward">{shownMany(at(t.flops))}flops</Fact>}
        {model.events > 0 && <Fact name="kept for backward">{shownBytes(at(t.kept))}</Fact>}
        {model.events > 0 && (
          <Fact name="time forward, back">
            {shownTime(at(t.forwardMicros))}, {shownTime(at(t.backwardMicros))}
          </Fact>
        )}
      </section>
      <OriginSection origin={originOf(model, "scopes", scope)} />
      {scope === 0 && meta.inputs !== undefined && <Inputs made={meta.inputs} />}
      {meta.values && model.events > 0 && (
        <section class="wg-section">
          <h2>Sizes</h2>
          <Fact name="values">{size(at(t.valueSize), at(t.roughValues) > 0)}</Fact>
          <Fact name="gradients" tone="wg-grad">
            {size(at(t.gradientSize), at(t.roughGradients) > 0)}
          </Fact>
          {at(t.badValues) > 0 && <Fact name="values with NaN" tone="wg-bad">{whole(at(t.badValues))}</Fact>}
          {at(t.badGradients) > 0 && (
            <Fact name="gradients with NaN" tone="wg-bad">
              {whole(at(t.badGradients))} of {whole(at(t.gradients))}
            </Fact>
          )}
        </section>
      )}
      {scope === 0 && meta.notes !== undefined && (
        <section class="wg-section">
          <h2>Notes</h2>
          {meta.notes.map((note) => (
            <p key={note} class="wg-muted">
              <Said text={note} />
            </p>
          ))}
        </section>
      )}
      {meta.values && model.events > 0 && worst.length > 0 && (
        <section class="wg-section">
          <h2>
            Parameters <small>gradient beside value</small>
          </h2>
          <ul class="wg-links">
            {worst.map(({ node, ratio, bad, rough }) => (
              <li key={node}>
                <button type="button" title={nameOf(model, node)} onClick={() => reveal(store, { kind: "node", row: node })}>
                  <span>{nameWithin(model, node, scope) || opOf(model, node)}</span>
                  <small class="wg-muted">{shownShape(shapeOf(model, node))}</small>
                  <span class={`wg-mono ${bad ? "wg-bad" : "wg-grad"}`}>{bad ? "NaN" : Number.isNaN(ratio) ? "none" : rough ? `~${shownNumber(ratio, 1)}` : shownNumber(ratio, 2)}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {scope > 0 && (
        <section class="wg-section">
          <button type="button" class="wg-button" onClick={() => select(store, { kind: "scope", row: scopes.parent[scope] as number })}>
            Up to {text(model, scopes.parent[scope] as number)}
          </button>
        </section>
      )}
    </>
  );
}

/** What ended the run, with the place, which errors of Wengert's own say themselves. */
function stoppedBy({ type, text, at = "" }: { type: string; text: string; at?: string }): string {
  const first = text.split("\n", 1)[0] as string;
  return `Stopped by ${type}: ${first}${first.includes(at) ? "" : ` (${at})`}`;
}

function text(model: Model, scope: number): string {
  const path = scopePath(model, scope);
  return path[path.length - 1] ?? "the whole run";
}

/** A name without the path of the module it is listed for: that stands above, and the end tells names apart. */
function nameWithin(model: Model, node: number, scope: number): string {
  const name = nameOf(model, node);
  const path = `${scopePath(model, scope).join(".")}.`;
  const at = name.indexOf(path);
  return at < 0 || path === "." ? name : name.slice(at + path.length);
}

/** A size; one that is made of sizes for drawing with no more digits than they have. */
function size(rms: number, rough: boolean): string {
  return Number.isNaN(rms) ? "not recorded" : `${rough ? `~${shownNumber(rms, 1)}` : shownNumber(rms, 3)} rms`;
}

interface ParameterGradient {
  node: number;
  /** Size of the gradient over size of the value; NaN where there is no gradient. */
  ratio: number;
  bad: boolean;
  /** Made of sizes for drawing. */
  rough: boolean;
}

/** Parameters inside, broken ones first, then those without a gradient, then the smallest gradients beside their values. */
function worstGradients(model: Model, scope: number, limit: number): ParameterGradient[] {
  const out: ParameterGradient[] = [];
  for (const node of nodesWithin(model, scope)) {
    if (kindOf(model, node) !== "param") continue;
    const [g, v] = [recordedSize(model, node, true), recordedSize(model, node, false)];
    const gradient = g ?? rmsOfCode(model.gradientCode[node] as number);
    const value = v ?? rmsOfCode(model.valueCode[node] as number);
    const ratio = gradient === null || value === null ? Number.NaN : gradient / value;
    out.push({ node, ratio, bad: hasNaNGradient(model, node), rough: g === null || v === null });
  }
  const rank = (p: ParameterGradient) => (p.bad ? -2 : Number.isNaN(p.ratio) ? -1 : p.ratio);
  return out.sort((a, b) => rank(a) - rank(b)).slice(0, limit);
}
