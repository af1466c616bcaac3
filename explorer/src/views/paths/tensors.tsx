/** Paths between tensors: the way of each, its part of the gradient, and its part of an element that is chosen. */
import { useState } from "preact/hooks";
import { shownNumber, shownShape } from "../../format";
import { namePart } from "../../formula/expression";
import { Formula } from "../../formula/view";
import { Grid, largest } from "../../panels/tensor";
import { useStore } from "../../state";
import { shapeOf, symbolOf, type Model } from "../../trace/model";
import { shownPaths } from "./paths";
import { placeOf, shareOf, shownPart, shownShare, shownSteps, turnOf, type TensorPath, type TensorSummary } from "./tensor_paths";

/** Steps of a path that are shown where there is room. */
const MANY = 9;

interface WayProps {
  readonly path: TensorPath;
  /** The paths that it is told from. */
  readonly all: readonly TensorPath[];
  readonly most?: number;
}

export function Way({ path, all, most = MANY }: WayProps) {
  const model = useStore().model.value;
  const { edges, left } = shownSteps(model, path, all, most);
  return (
    <span class="wg-way">
      {edges.map((edge, i) => (
        <span key={edge}>
          {i > 0 && <i aria-hidden="true">→</i>}
          <Step edge={edge} />
        </span>
      ))}
      {left > 0 && <small class="wg-muted">{`and ${left} more ${left === 1 ? "step" : "steps"}`}</small>}
    </span>
  );
}

function Step({ edge }: { edge: number }) {
  const model = useStore().model.value;
  const node = model.dst[edge] as number;
  const turn = turnOf(model, edge);
  return (
    <span class="wg-step">
      <b>{symbolOf(model, node)}</b>
      <small>
        <Formula parts={[namePart(model, node)]} />
        {turn > 0 && ` by its ${ORDINALS[turn - 1] ?? `${turn}th`}`}
      </small>
    </span>
  );
}

const ORDINALS = ["1st", "2nd", "3rd"] as const;

/** The sum over all paths, held against the gradient that was recorded. */
export function TensorSum({ found, from }: { found: TensorSummary; from: number }) {
  const model = useStore().model.value;
  const [a, b] = [<Formula parts={[namePart(model, from)]} />, <Formula parts={[namePart(model, found.to)]} />];
  return (
    <p class="wg-paths-sum">
      <span>
        <b>{shownPaths(found.count)}</b> {found.count === 1 ? "path" : "paths"}
      </span>
      <span>
        sum{" "}
        <span class="wg-derivative">
          ∂{b}/∂{a}
        </span>
        {found.gradient?.length === 1 ? (
          <>
            {" "}
            = <b class="wg-grad wg-mono">{shownNumber(found.gradient[0] as number)}</b>
          </>
        ) : (
          <span class="wg-muted"> {shownShape(shapeOf(model, from))}, element by element</span>
        )}
      </span>
      <TensorCheck found={found} from={from} />
      {found.others !== null && found.others.share !== null && (
        <span class="wg-muted">
          the {found.paths.length} listed make {shownPart(1 - found.others.share, "the sum")}
        </span>
      )}
    </p>
  );
}

export function TensorCheck({ found, from }: { found: TensorSummary; from: number }) {
  const model = useStore().model.value;
  const apart =
    found.difference === 0 ? "No element differs." : `Elements differ by at most ${shownNumber(found.difference, 3)}.`;
  return (
    <span class={found.equal ? "wg-check" : "wg-check is-wrong"} title={apart}>
      {found.equal ? "✓ equals " : "✗ differs from "}
      <Formula parts={[namePart(model, from)]} />
      .grad
      {!found.equal && ` by up to ${shownNumber(found.difference, 3)}`}
    </span>
  );
}

interface TensorListProps {
  readonly found: TensorSummary;
  readonly from: number;
  readonly lit: readonly number[] | null;
  readonly onLight: (edges: readonly number[] | null) => void;
}

/** The gradient's elements beside its paths; choosing one shows what each path gives of it. */
export function TensorList({ found, from, lit, onLight }: TensorListProps) {
  const model = useStore().model.value;
  const [chosen, setChosen] = useState(-1);
  const shape = shapeOf(model, from);
  const listed = [...found.paths, ...(found.others === null ? [] : [found.others])];
  const pointed = found.paths.find((path) => path.edges === lit) ?? null;
  const shares = listed.map((path) => Math.abs(shareOf(path, found.gradient, chosen) ?? 0));
  const whole = shares.reduce((sum, share) => sum + share, 0);
  return (
    <div class="wg-tensor-paths">
      {found.gradient !== null && found.gradient.length > 1 && (
        <section class="wg-tensor is-gradient" onMouseLeave={() => onLight(null)}>
          <h2>{pointed === null ? "gradient, all paths" : "along this path"}</h2>
          <Grid
            values={pointed?.values ?? found.gradient}
            shape={shape}
            label={`gradient, ${shownShape(shape)}: choose an element to see its paths`}
            high={largest([found.gradient, ...listed.map((path) => path.values ?? [])].flat())}
            chosen={chosen}
            onChoose={(element) => setChosen(element === chosen ? -1 : element)}
          />
          <p class="wg-muted">
            {chosen < 0 ? (
              "Choose an element to see what each path gives of it."
            ) : (
              <Chosen model={model} from={from} found={found} element={chosen} />
            )}
          </p>
        </section>
      )}
      <ol class="wg-path-list" aria-label="Paths, the largest first" onMouseLeave={() => onLight(null)}>
        {listed.map((path, i) => {
          const share = shareOf(path, found.gradient, chosen);
          const told = path !== found.others;
          return (
            <li
              key={path.edges.join()}
              class={told && path.edges === lit ? "is-lit" : ""}
              tabIndex={0}
              onFocus={() => onLight(told ? path.edges : null)}
              onMouseEnter={() => onLight(told ? path.edges : null)}
            >
              <div class="wg-way-row">
                {told ? (
                  <Way path={path} all={found.paths} />
                ) : (
                  <span class="wg-way wg-muted">
                    {shownPaths(found.count - found.paths.length)} other paths, together
                  </span>
                )}
                <Contribution path={path} share={share} element={chosen} />
              </div>
              <i
                class={share !== null && share < 0 ? "wg-path-share is-against" : "wg-path-share"}
                style={{ width: `${whole === 0 ? 0 : ((shares[i] as number) / whole) * 100}%` }}
                aria-hidden="true"
              />
            </li>
          );
        })}
      </ol>
    </div>
  );
}

/** What a path gives: its part, and a number: the chosen element's, the only one's, or the typical size. */
export function Contribution({ path, share, element }: { path: TensorPath; share: number | null; element: number }) {
  if (path.absent) return <span class="wg-contribution wg-muted">nothing flows here</span>;
  const single = path.values?.[path.values.length === 1 ? 0 : element];
  return (
    <span class="wg-contribution">
      <b class="wg-grad wg-mono">{single === undefined ? `rms ${shownNumber(path.rms, 3)}` : shownNumber(single)}</b>
      {share !== null && <span>{shownShare(share)}</span>}
    </span>
  );
}

function Chosen({ model, from, found, element }: { model: Model; from: number; found: TensorSummary; element: number }) {
  return (
    <>
      <Formula parts={[namePart(model, from)]} />
      {placeOf(shapeOf(model, from), element)}: the paths give{" "}
      <b class="wg-grad wg-mono">{shownNumber(found.gradient?.[element] ?? Number.NaN)}</b> in all.
    </>
  );
}
