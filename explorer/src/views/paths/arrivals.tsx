/** How a tensor's gradient comes to it, where its paths are not told apart: by which edges, and on which way most of it. */
import { shownNumber } from "../../format";
import { namePart } from "../../formula/expression";
import { Formula } from "../../formula/view";
import { useStore } from "../../state";
import { rmsOfCode } from "../../trace/decode";
import { edgesAt, symbolOf, type Model } from "../../trace/model";
import { Way } from "./tensors";
import type { TensorPath } from "./tensor_paths";

export interface Arrival {
  readonly edge: number;
  /** Typical size of the elements that come along it: of the gradient over all paths that begin with this edge. */
  readonly rms: number;
}

/** The edges by which gradients come to a node, the largest first. */
export function arrivalsAt(model: Model, node: number): Arrival[] {
  return Array.from(edgesAt(model.consumers, node), (edge) => ({ edge, rms: rmsOfCode(model.edgeGradientCode?.[edge] ?? 0) }))
    .flatMap(({ edge, rms }) => (rms === null || rms === 0 ? [] : [{ edge, rms }]))
    .sort((a, b) => size(b.rms) - size(a.rms));
}

/** NaN is larger than everything: it is what the reader looks for. */
function size(rms: number): number {
  return Number.isNaN(rms) ? Number.POSITIVE_INFINITY : rms;
}

/** The edges from a node to another one, at each node on that by which most arrives; empty where that leads elsewhere. */
export function mainWay(model: Model, from: number, to: number): number[] {
  const edges: number[] = [];
  for (let node = from; node !== to; ) {
    const best = arrivalsAt(model, node).find(({ edge }) => (model.dst[edge] as number) <= to);
    if (best === undefined) return [];
    edges.push(best.edge);
    node = model.dst[best.edge] as number;
  }
  return edges;
}

/** Ways in that are listed. */
const LISTED = 12;

export function Arrivals({ from, to, lit, onLight }: { from: number; to: number; lit: readonly number[] | null; onLight: (edges: readonly number[] | null) => void }) {
  const model = useStore().model.value;
  const arrivals = arrivalsAt(model, from);
  if (arrivals.length === 0) return null;
  const way = mainWay(model, from, to);
  const path: TensorPath = { edges: way, rms: Number.NaN, share: null, absent: false, values: null };
  const most = size((arrivals[0] as Arrival).rms);
  const name = <Formula parts={[namePart(model, from)]} />;
  return (
    <div class="wg-tensor-paths">
      <section>
        <h2>
          How the gradient comes to {name}: {arrivals.length === 1 ? "by one operation" : `by ${arrivals.length.toLocaleString("en")} operations`}
        </h2>
        <ol class="wg-path-list" aria-label="Edges by which the gradient comes, the largest first" onMouseLeave={() => onLight(null)}>
          {arrivals.slice(0, LISTED).map(({ edge, rms }) => (
            <li key={edge} class={lit?.[0] === edge ? "is-lit" : ""} tabIndex={0} onFocus={() => onLight([edge])} onMouseEnter={() => onLight([edge])}>
              <div class="wg-way-row">
                <span class="wg-way">
                  <span class="wg-step">
                    <b>{symbolOf(model, model.dst[edge] as number)}</b>
                    <small>
                      <Formula parts={[namePart(model, model.dst[edge] as number)]} />
                    </small>
                  </span>
                </span>
                <span class="wg-contribution" title="Of all paths that begin with this edge: the vector-Jacobian product along it">
                  <b class={Number.isFinite(rms) ? "wg-grad wg-mono" : "wg-mono"}>rms {shownNumber(rms, 2)}</b>
                </span>
              </div>
              <i class="wg-path-share" style={{ width: `${most === 0 || !Number.isFinite(most) ? 100 : (size(rms) / most) * 100}%` }} aria-hidden="true" />
            </li>
          ))}
          {arrivals.length > LISTED && <li class="wg-muted">and {arrivals.length - LISTED} more, each no larger</li>}
        </ol>
      </section>
      {way.length > 0 && (
        <section>
          <h2>The main way, always by the operation that most comes from</h2>
          <p>
            <Way path={path} all={[path]} most={24} />
          </p>
        </section>
      )}
    </div>
  );
}
