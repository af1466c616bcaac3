/** From a node to the loss: the product along every path, their sum, and that it is the gradient. */
import { shownNumber, shownQuotient } from "../../../format";
import { namePart, type Part } from "../../../formula/expression";
import { Formula } from "../../../formula/view";
import type { Model } from "../../../trace/model";
import { useStore, type Numbers, type Store } from "../../../state";
import { nudge, type Quotient } from "../../../scalar/run";
import { programFor, slopeOf } from "../../../scalar/recompute";
import { agree, pathsBetween, shownPaths, type Path } from "../../../views/paths/paths";
import { tensorPathsOf } from "../../../views/paths/tensor_paths";
import { Contribution, TensorCheck, Way } from "../../../views/paths/tensors";
import { hasGradient } from "../progress";
import { lossPart } from "../telling";

/** Paths shown here, and steps of each between tensors; the Paths tab has more. */
const SHOWN = 3;
const STEPS = 6;

export function PathsSection({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const numbers = store.numbers.value;
  const root = model.trace.meta.roots[0];
  if (root === undefined || node === root) return null;
  const found = pathsBetween(model, numbers.slope, node, root, SHOWN);
  const ahead = isAhead(store, node);
  if (found.sum === null) return <TensorPathsSection node={node} ahead={ahead} />;
  const gradient = numbers.gradient(node);
  const seed = numbers.gradient(root) ?? 1;
  return (
    <section class="wg-section">
      <h2>
        <span>
          Paths <Formula parts={[namePart(model, node)]} /> → <Formula parts={[lossPart(model)]} />
        </span>
        <small>
          {shownPaths(found.count)} {found.count === 1 ? "path" : "paths"}
        </small>
      </h2>
      {ahead && <Ahead />}
      {!ahead && found.best.map((path) => (
        <Product key={path.edges.join()} path={path} numbers={numbers} total={found.count > 1} />
      ))}
      {!ahead && found.count > found.best.length && (
        <button type="button" class="wg-plain-link" onClick={() => (store.tab.value = "paths")}>
          all paths
        </button>
      )}
      {!ahead && <p class="wg-path-sum">
        <span>{found.count === 0 ? "no path: nothing flows" : "sum of paths"}</span>
        {found.count > 0 && <b class="wg-grad wg-mono">{shownNumber(found.sum)}</b>}
        {gradient !== null && found.count > 0 && (
          <Check equal={agree(found.sum * seed, gradient, found.precision, found.size * Math.abs(seed))} node={node} />
        )}
      </p>}
      {!ahead && <Nudge node={node} />}
    </section>
  );
}

/** Whether a node has a gradient that has not arrived yet: until then nothing tells it. */
export function isAhead({ model, cursor }: Store, node: number): boolean {
  return model.value.gradientCode[node] !== 0 && !hasGradient(model.value, node, cursor.value);
}

function Ahead() {
  return <p class="wg-aside">What flows back along them is shown when the gradient is there.</p>;
}

/** The same where tensors are on the way: the largest paths, each with its part of the gradient. */
function TensorPathsSection({ node, ahead }: { node: number; ahead: boolean }) {
  const store = useStore();
  const model = store.model.value;
  const found = tensorPathsOf(model, node);
  if (found === null) return null;
  const shown = found.paths.slice(0, SHOWN);
  return (
    <section class="wg-section">
      <h2>
        <span>
          Paths <Formula parts={[namePart(model, node)]} /> → <Formula parts={[lossPart(model)]} />
        </span>
        <small>
          {shownPaths(found.count)} {found.count === 1 ? "path" : "paths"}
        </small>
      </h2>
      {ahead && <Ahead />}
      {!ahead && shown.map((path) => (
        <div key={path.edges.join()} class="wg-way-row">
          <Way path={path} all={found.paths} most={STEPS} />
          <Contribution path={path} share={path.share} element={-1} />
        </div>
      ))}
      {!ahead && (
        <p class="wg-path-sum">
          <span>sum of paths</span>
          <TensorCheck found={found} from={node} />
        </p>
      )}
      <button type="button" class="wg-plain-link" onClick={() => (store.tab.value = "paths")}>
        {found.count > shown.length ? "all paths" : "element by element"}
      </button>
    </section>
  );
}

function Check({ equal, node }: { equal: boolean; node: number }) {
  const model = useStore().model.value;
  return (
    <span class={equal ? "wg-check" : "wg-check is-wrong"}>
      {equal ? "✓ equals " : "✗ differs from "}
      <Formula parts={[namePart(model, node)]} />
      .grad
    </span>
  );
}

/** Products of more factors than this are shortened: slopes of 1 first. */
const MANY = 12;

/** 3 × 1 × 1 × 4, each with the derivative that it is. */
export function Product({ path, numbers, total }: { path: Path; numbers: Numbers; total: boolean }) {
  const model = useStore().model.value;
  const all = factorsOf(model, path);
  const factors =
    all.length <= MANY ? all : all.filter(({ edge }) => slopeOf(model, numbers, edge) !== 1).slice(0, MANY);
  const shown = new Set(factors);
  const rest = all.filter((factor) => !shown.has(factor));
  return (
    <div class="wg-product">
      {factors.map(({ edge, of, by }, i) => (
        <span key={edge}>
          {i > 0 && <i aria-hidden="true">×</i>}
          <span class="wg-factor">
            <b>{shownNumber(slopeOf(model, numbers, edge) ?? Number.NaN, 3)}</b>
            <small>
              ∂<Formula parts={[of]} />
              /∂
              <Formula parts={[by]} />
            </small>
          </span>
        </span>
      ))}
      {rest.length > 0 && (
        <span>
          <i aria-hidden="true">×</i>
          <span class="wg-factor">
            <b>
              {shownNumber(
                rest.reduce((product, { edge }) => product * (slopeOf(model, numbers, edge) ?? Number.NaN), 1),
                3,
              )}
            </b>
            <small>{rest.length} more</small>
          </span>
        </span>
      )}
      {total && <b class="wg-product-total">= {shownNumber(path.product)}</b>}
    </div>
  );
}

interface Factor {
  readonly edge: number;
  readonly of: Part;
  readonly by: Part;
}

/** The derivatives along a path; a second name is no step, it names the end of the one before. */
export function factorsOf(model: Model, path: Path): Factor[] {
  const isSecondName = (edge: number | undefined) =>
    edge !== undefined && (model.trace.nodes.op[model.dst[edge] as number] as number) < 0;
  const steps = path.edges.filter((edge) => !isSecondName(edge));
  const kept = steps.length === 0 ? path.edges : steps;
  const placeOf = new Map(path.edges.map((edge, i) => [edge, i]));
  return kept.map((edge) => {
    const next = path.edges[(placeOf.get(edge) as number) + 1];
    const end =
      isSecondName(next) && next !== edge ? (model.dst[next as number] as number) : (model.dst[edge] as number);
    return { edge, of: namePart(model, end), by: namePart(model, model.src[edge] as number) };
  });
}

/** The quotient, where it says something: not where rounding would drown what is expected. */
export function NudgeResult({ quotient: { value, error }, expected }: { quotient: Quotient; expected: number }) {
  if (expected !== 0 && Math.abs(expected) < 100 * error) return <span>too small to be told from rounding</span>;
  return <b class="wg-mono">{shownQuotient(value)}</b>;
}

/** The gradient by the definition: the loss a little above and a little below. */
function Nudge({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const program = programFor(model);
  if ("reason" in program) return <p class="wg-aside">No nudge test: {program.reason}</p>;
  const at = store.numbers.value.value(node);
  const gradient = store.numbers.value.gradient(node);
  if (at === null || gradient === null) return null;
  const quotient = nudge(program, node, at, store.moved.value);
  const [L, x] = [<Formula parts={[lossPart(model)]} />, <Formula parts={[namePart(model, node)]} />];
  return (
    <p class="wg-nudge">
      <span>
        nudge test ({L}({x}+h) − {L}({x}−h)) / 2h =
      </span>
      <NudgeResult quotient={quotient} expected={gradient} />
    </p>
  );
}
