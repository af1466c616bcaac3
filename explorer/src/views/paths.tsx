/** The Paths tab: every way from one node to another, the product along each, their sum, and that it is the derivative. */
import { useMemo, useState } from "preact/hooks";
import { shownNumber } from "../format";
import { plainName, namePart } from "../formula/expression";
import { Formula } from "../formula/view";
import { useAsked, type Asked } from "../panels/asking";
import { NudgeResult, Product } from "../panels/lesson/about/paths_section";
import { programFor, slopeOf } from "../scalar/recompute";
import { nudge, programOf } from "../scalar/run";
import { select, useStore, type Numbers } from "../state";
import { kindOf, type Model } from "../trace/model";
import { Arrivals } from "./paths/arrivals";
import { Climb } from "./paths/climb";
import { agree, pathsBetween, shownPaths, type PathSummary } from "./paths/paths";
import { PathsPicture } from "./paths/picture";
import { tensorPathsOf } from "./paths/tensor_paths";
import { TensorList, TensorSum } from "./paths/tensors";

/** Paths that are listed, fewer where they are long; all are counted and summed. */
const [LISTED, LISTED_OF_MANY] = [50, 12];
/** Above this a list of all nodes is no help: leaves, results and the selected node are offered. */
const OFFERED = 400;

export function PathsView() {
  const store = useStore();
  const model = store.model.value;
  const numbers = store.numbers.value;
  const root = model.trace.meta.roots[0] ?? model.nodes - 1;
  const at = store.selection.value;
  const selected = at?.kind === "node" && at.row !== root ? at.row : -1;
  const [ends, setEnds] = useState<{ from: number | null; to: number | null }>({ from: null, to: null });
  const [lit, setLit] = useState<readonly number[] | null>(null);
  const to = ends.to ?? root;
  const from = ends.from ?? (selected >= 0 && selected < to ? selected : firstLeaf(model));
  const found = useMemo(
    () => lastPaths(model, numbers, from, to, store.small.value ? LISTED : LISTED_OF_MANY),
    [model, numbers, from, to],
  );
  const [asked, ask] = useAsked("paths", from);
  const told = useMemo(() => tensorPathsOf(model, from) ?? (asked.state === "there" ? tensorPathsOf(model, from, asked.answer) : null), [model, from, asked]);
  const tensors = found.sum === null && told?.to === to ? told : null;
  const band = useMemo(() => new Set(lit ?? found.through.keys()), [lit, found]);
  const choose = (end: "from" | "to", row: number) => {
    setLit(null);
    setEnds({ ...ends, [end]: row });
    if (end === "from") select(store, { kind: "node", row });
  };
  return (
    <div class="wg-paths">
      <header>
        <h1>Paths</h1>
        <Choice
          label="from"
          chosen={from}
          nodes={choices(model, from, to, "from")}
          onChoose={(row) => choose("from", row)}
        />
        <Choice label="to" chosen={to} nodes={choices(model, from, to, "to")} onChoose={(row) => choose("to", row)} />
      </header>
      {tensors === null ? (
        <Sum found={found} from={from} to={to} numbers={numbers} told={told?.to ?? null} />
      ) : (
        <TensorSum found={tensors} from={from} />
      )}
      {tensors === null && found.sum === null && found.count > 0 && to === root && <AskPaths asked={asked} ask={ask} />}
      {store.small.value && (
        <PathsPicture
          from={from}
          to={to}
          band={band}
          onFrom={(row) => choose("from", row)}
          onTo={(row) => choose("to", row)}
        />
      )}
      {tensors === null && found.sum === null && found.count > 0 && to === root && <Arrivals from={from} to={to} lit={lit} onLight={setLit} />}
      {tensors === null ? (
        <List found={found} numbers={numbers} lit={lit} onLight={setLit} />
      ) : (
        <TensorList key={from} found={tensors} from={from} lit={lit} onLight={setLit} />
      )}
    </div>
  );
}

let last: { key: readonly unknown[]; found: PathSummary } | null = null;

/** The paths, kept while other tabs are looked at. */
function lastPaths(model: Model, numbers: Numbers, from: number, to: number, most: number): PathSummary {
  const key = [model, numbers, from, to, most];
  if (last === null || key.some((part, i) => part !== last?.key[i])) last = { key, found: pathsBetween(model, (edge) => slopeOf(model, numbers, edge), from, to, most) };
  return last.found;
}

/** Between tensors the engine pulls the gradient back along each path by itself: that takes the program behind the page. */
function AskPaths({ asked, ask }: { asked: Asked<unknown>; ask: () => void }) {
  const { host } = useStore();
  if (host.ask === undefined) {
    return (
      <p class="wg-muted wg-ask-paths">
        With the program behind the page (<code>wengert explore --live</code>, <code>wengert.explorer.serve(found)</code>, <code>found.show(live=True)</code>) the largest are told: what the gradient becomes along each alone.
      </p>
    );
  }
  return (
    <div class="wg-ask-paths">
      <button type="button" class="wg-button" disabled={asked.state === "waits"} onClick={ask}>
        {asked.state === "waits" ? "Pulling the gradient back…" : "Tell the largest paths"}
      </button>
      {asked.state === "failed" && <p class="wg-bad">{asked.reason}</p>}
      {asked.state === "nothing" && <p class="wg-muted">No paths can be told from here: the run has several results or passes.</p>}
    </div>
  );
}

function firstLeaf(model: Model): number {
  for (const kind of ["param", "input"]) {
    for (let node = 0; node < model.nodes; node++) if (kindOf(model, node) === kind) return node;
  }
  return 0;
}

/** Nodes that can be an end: before the other one. */
function choices(model: Model, from: number, to: number, end: "from" | "to"): number[] {
  const [first, stop] = end === "from" ? [0, to] : [from + 1, model.nodes];
  const all = Array.from({ length: Math.max(0, stop - first) }, (_, i) => first + i);
  const chosen = end === "from" ? from : to;
  if (all.length <= OFFERED) return all;
  const offered = all.filter((node) => node !== chosen && kindOf(model, node) !== "op").slice(0, OFFERED);
  return [...offered, chosen].sort((a, b) => a - b);
}

function Choice({
  label,
  chosen,
  nodes,
  onChoose,
}: {
  label: string;
  chosen: number;
  nodes: readonly number[];
  onChoose: (row: number) => void;
}) {
  const model = useStore().model.value;
  return (
    <label>
      {label}{" "}
      <select value={String(chosen)} onChange={(event) => onChoose(Number(event.currentTarget.value))}>
        {nodes.map((node) => (
          <option key={node} value={String(node)}>
            {plainName(model, node)}
          </option>
        ))}
      </select>
    </label>
  );
}

interface SumProps {
  readonly found: PathSummary;
  readonly from: number;
  readonly to: number;
  readonly numbers: Numbers;
  /** The end up to which contributions of tensor paths are told. */
  readonly told: number | null;
}

function Sum({ found, from, to, numbers, told }: SumProps) {
  const store = useStore();
  const model = store.model.value;
  const count = shownPaths(found.count);
  const [a, b] = [<Formula parts={[namePart(model, from)]} />, <Formula parts={[namePart(model, to)]} />];
  if (found.count === 0) {
    return (
      <p class="wg-paths-sum">
        <span>
          No path leads from {a} to {b}: nothing flows.
        </span>
      </p>
    );
  }
  if (found.sum === null) {
    return (
      <p class="wg-paths-sum">
        <span>
          <b>{count}</b> {found.count === 1 ? "path" : "paths"} from {a} to {b}, between tensors: what a path gives is an array of {a}'s shape, the
          gradient pulled back along it alone.
          {told !== null && (
            <>
              {" "}
              Choose <Formula parts={[namePart(model, told)]} /> as the end to see what each path gives of the gradient.
            </>
          )}
        </span>
      </p>
    );
  }
  return (
    <p class="wg-paths-sum">
      <span>
        <b>{count}</b> {found.count === 1 ? "path" : "paths"}
      </span>
      <span>
        sum{" "}
        <span class="wg-derivative">
          ∂{b}/∂{a}
        </span>{" "}
        = <b class="wg-grad wg-mono">{shownNumber(found.sum)}</b>
      </span>
      <Proof found={found} sum={found.sum} from={from} to={to} numbers={numbers} />
    </p>
  );
}

interface ProofProps {
  readonly found: PathSummary;
  readonly sum: number;
  readonly from: number;
  readonly to: number;
  readonly numbers: Numbers;
}

/** The sum against the engine's gradient where the path ends at the loss, else against the difference quotient. */
function Proof({ found, sum, from, to, numbers }: ProofProps) {
  const store = useStore();
  const model = store.model.value;
  const program = useMemo(() => (to === model.trace.meta.roots[0] ? programFor(model) : programOf(model, to)), [model, to]);
  const gradient = to === model.trace.meta.roots[0] ? numbers.gradient(from) : null;
  const at = numbers.value(from);
  const quotient = "reason" in program || at === null ? null : nudge(program, from, at, store.moved.value);
  const scale = to === model.trace.meta.roots[0] ? (numbers.gradient(to) ?? 1) : 1;
  const name = <Formula parts={[namePart(model, from)]} />;
  const equal = gradient !== null && agree(sum * scale, gradient, found.precision, found.size * Math.abs(scale));
  return (
    <>
      {gradient !== null && (
        <span class={equal ? "wg-check" : "wg-check is-wrong"}>
          {equal ? "✓ equals " : "✗ differs from "}
          {name}.grad
        </span>
      )}
      {quotient !== null && (
        <span class="wg-muted">
          nudge test <NudgeResult quotient={quotient} expected={sum} />
        </span>
      )}
    </>
  );
}

interface ListProps {
  readonly found: PathSummary;
  readonly numbers: Numbers;
  readonly lit: readonly number[] | null;
  readonly onLight: (edges: readonly number[] | null) => void;
}

function List({ found, numbers, lit, onLight }: ListProps) {
  const whole = found.best.reduce((sum, { product }) => sum + Math.abs(product), 0);
  return (
    <ol class="wg-path-list" aria-label="Paths, the largest first">
      {found.best.map((path) => (
        <li
          key={path.edges.join()}
          class={lit === path.edges ? "is-lit" : ""}
          tabIndex={0}
          onFocus={() => onLight(path.edges)}
          onMouseEnter={() => onLight(path.edges)}
        >
          <Product path={path} numbers={numbers} total={true} />
          {(lit === null ? path === found.best[0] : lit === path.edges) && <Climb path={path} numbers={numbers} />}
          {found.count > 1 && (
            <i
              class="wg-path-share"
              style={{ width: `${whole === 0 ? 0 : (Math.abs(path.product) / whole) * 100}%` }}
              aria-hidden="true"
            />
          )}
        </li>
      ))}
      {found.count > found.best.length && found.best.length > 0 && (
        <li class="wg-muted">and {shownPaths(found.count - found.best.length)} more, each no larger than these</li>
      )}
    </ol>
  );
}
