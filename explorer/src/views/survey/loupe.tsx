/** The inside of one layer at reading size. */
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { copiedFor } from "../../fold/copies";
import { nodesWithin } from "../../fold/fold";
import { statesOf } from "../../fold/recurrence";
import { ASK_FIRST } from "../../fold/open";
import { dtypeOf, edgesAt, scopePath, shapeOf, type Model } from "../../trace/model";
import { useStore } from "../../state";
import type { KernelInfo } from "../../trace/types";
import { ScopeGraph, WHOLE } from "./scope_graph";
import { boxesIn, enoughOpen } from "./looks";
import { lineage, othersLike, totalsOf, within } from "./totals";

const NONE: readonly KernelInfo[] = [];

interface LoupeProps {
  focus: number;
  goTo: (scope: number) => void;
  /** What is open at first where all of it is to be seen at once; a few boxes if not given. */
  opened?: ((scope: number, open: ReadonlySet<number>) => ReadonlySet<number>) | undefined;
}

export function Loupe({ focus, goTo, opened }: LoupeProps) {
  const store = useStore();
  const model = store.model.value;
  useLayoutEffect(() => {
    // What is selected is seen from the beginning, wherever the selection came from.
    const open = new Set(store.open.peek());
    const selected = store.selection.peek();
    if (selected?.kind === "node") for (const s of lineage(model, model.trace.nodes.scope[selected.row] as number)) if (s > 0) open.add(s);
    const enough = opened === undefined ? enoughOpen(model, focus, open) : opened(focus, open);
    if (enough.size !== store.open.peek().size) store.open.value = enough;
  }, [model, focus]);
  return (
    <section class="wg-loupe" aria-label={`Inside ${pathOf(model, focus)}`}>
      <Head model={model} focus={focus} goTo={goTo} />
      <div class="wg-loupe-graph">
        <Inside focus={focus} least={opened === undefined ? undefined : WHOLE} goTo={goTo} />
      </div>
      <Legend model={model} focus={focus} />
    </section>
  );
}

function Inside({ focus, least, goTo }: { focus: number; least: number | undefined; goTo: (scope: number) => void }) {
  const store = useStore();
  const model = store.model.value;
  const open = store.open.value;
  const [asked, setAsked] = useState(-1);
  const found = store.found.value;
  const lit = useMemo(() => new Set(found?.rows), [found]);
  const boxes = useMemo(() => boxesIn(model, focus, open), [model, focus, open]);
  if (boxes > ASK_FIRST && asked !== focus) {
    return (
      <div class="wg-ask">
        <p>This opens {boxes.toLocaleString("en")} boxes.</p>
        <button type="button" class="wg-button" onClick={() => setAsked(focus)}>
          Draw them
        </button>
      </div>
    );
  }
  return <ScopeGraph focus={focus} open={open} lit={lit} kernels={model.trace.kernels?.list ?? NONE} least={least} goTo={goTo} />;
}

function pathOf(model: Model, scope: number): string {
  return scopePath(model, scope).join(".") || model.trace.meta.title;
}

function Head({ model, focus, goTo }: { model: Model; focus: number; goTo: (scope: number) => void }) {
  const { scopes } = model.trace;
  const t = totalsOf(model);
  const like = focus === 0 ? 0 : othersLike(model, focus);
  const comesIn = useMemo(() => entering(model, focus), [model, focus]);
  const path: number[] = [];
  for (let s = focus; s > 0; s = scopes.parent[s] as number) path.unshift(s);
  const ops = t.ops[focus] as number;
  return (
    <header class="wg-loupe-head">
      <nav aria-label="Where">
        {path.length === 0 ? (
          <b>{model.trace.meta.title}</b>
        ) : (
          <>
            <button type="button" class="wg-crumb" title="The whole run" onClick={() => goTo(0)}>
              {model.trace.meta.title}
            </button>
            <span class="wg-muted"> › </span>
          </>
        )}
        {path.map((s, i) => (
          <span key={s}>
            {i > 0 && <span class="wg-muted">.</span>}
            <button type="button" class="wg-crumb" aria-current={s === focus} onClick={() => goTo(s)}>
              {model.trace.strings[scopes.name[s] as number]}
            </button>
          </span>
        ))}
      </nav>
      <span class="wg-muted">
        {ops.toLocaleString("en")} op{ops === 1 ? "" : "s"}
        {like > 0 && `, same shape as the other ${like}`}
      </span>
      <span class="wg-muted wg-mono wg-loupe-shape">{comesIn}</span>
    </header>
  );
}

/** dtype and shape of the largest value that comes in. */
export function entering(model: Model, scope: number): string {
  let best = -1;
  let most = 0;
  const { scope: scopeOf, op } = model.trace.nodes;
  for (const n of nodesWithin(model, scope)) {
    if ((op[n] as number) < 0) continue;
    for (const e of edgesAt(model.operands, n)) {
      const src = model.src[e] as number;
      if ((op[src] as number) < 0 && (model.trace.nodes.kind[src] as number) !== 0) continue;
      if (scope !== 0 && within(model, scopeOf[src] as number, scope)) continue;
      const size = shapeOf(model, src).reduce((a, b) => a * b, 1);
      if (size > most) {
        most = size;
        best = src;
      }
    }
  }
  return best < 0 ? "" : `${dtypeOf(model, best)} · ${shapeOf(model, best).join(" × ") || "scalar"}`;
}

function Legend({ model, focus }: { model: Model; focus: number }) {
  const gradients = (totalsOf(model).gradients[0] as number) > 0;
  const broken = (totalsOf(model).badGradients[focus] as number) > 0;
  const states = focus !== 0 && statesOf(model, focus).length > 0;
  const copies = useMemo(() => nodesWithin(model, focus).some((n) => (copiedFor(model)[n] as number) >= 0), [model, focus]);
  return (
    <footer class="wg-legend">
      <span class="wg-key-value">value</span>
      {gradients && <span class="wg-key-gradient">gradient</span>}
      {copies && <span class="wg-key-copy">copied to fit</span>}
      {states && <span class="wg-key-state">state</span>}
      {model.trace.kernels !== undefined && <span class="wg-key-kernel">one kernel</span>}
      {broken && <span class="wg-key-lost">gradient lost to NaN</span>}
    </footer>
  );
}
