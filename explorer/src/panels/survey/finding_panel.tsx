/** One finding in full: the arithmetic, where in the tensor, where in the program, what to write instead, how far it went. */
import { num } from "../../trace/decode";
import { detailsOf, opOf, operandsOf, scopePath, shapeOf, type Model } from "../../trace/model";
import type { Finding, Num } from "../../trace/types";
import { useStore } from "../../state";
import { shownNumber, shownShape } from "../../format";
import { hasNaNGradient } from "../../views/survey/totals";
import { placeOf, Source, spanOf } from "../source";
import { momentOf } from "./actions";
import { Cells } from "./cells";
import { Fact, Said } from "./said";

export function FindingPanel({ finding }: { finding: Finding }) {
  const model = useStore().model.value;
  const span = finding.node < 0 ? -1 : spanOf(model, finding.node);
  const where = whereInTensor(model, finding);
  return (
    <>
      <section class="wg-section wg-finding-head">
        <h1>
          <Title model={model} finding={finding} />
        </h1>
        <p class="wg-muted">{[...placeInRun(model, finding)].join(" · ")}</p>
        {finding.formula !== undefined && <Arithmetic finding={finding} />}
        {finding.table !== undefined && <Table table={finding.table} />}
        {finding.text !== "" && (
          <p>
            <Said text={finding.text} />
          </p>
        )}
      </section>
      {where !== null && (
        <section class="wg-section">
          <h2>
            Where in the tensor <small class="wg-mono">{shownShape(where.shape)}</small>
          </h2>
          <Cells cells={where.cells} gradient={where.gradient} label="Where in the tensor" />
        </section>
      )}
      {(placeOf(model.trace, span) !== "" || finding.fix !== "") && (
        <section class="wg-section">
          <h2>
            Where it came from <small>{placeOf(model.trace, span)}</small>
          </h2>
          <Source trace={model.trace} span={span} bad={finding.severity === "error"} />
          {finding.fix !== "" && (
            <p>
              <Said text={finding.fix} />
            </p>
          )}
        </section>
      )}
      <Spread finding={finding} />
    </>
  );
}

function Title({ model, finding }: { model: Model; finding: Finding }) {
  if (!finding.rule.startsWith("nan") || finding.node < 0) return <>{finding.title}</>;
  return (
    <>
      NaN is born at <span class="wg-bad">{opOf(model, finding.node)}</span>
    </>
  );
}

function* placeInRun(model: Model, finding: Finding): Generator<string> {
  if (finding.node >= 0) yield scopePath(model, model.trace.nodes.scope[finding.node] as number).join(".");
  else yield finding.where;
  const moment = momentOf(model, finding);
  if (moment === null) return;
  const place = (n: number, of: number) => `${n.toLocaleString("en")} of ${of.toLocaleString("en")}`;
  if (finding.phase === "backward") yield `back ${place(moment - model.turn, model.events - model.turn)}`;
  else yield `step ${place(moment, model.turn)}`;
}

/** "g · 1/(2√s)" in letters, then in numbers; what follows the last equals sign is the outcome. */
function Arithmetic({ finding }: { finding: Finding }) {
  const { tex, numbers } = finding.formula as NonNullable<Finding["formula"]>;
  const cut = numbers.lastIndexOf("=");
  return (
    <div class={`wg-arithmetic wg-${finding.severity}`}>
      <span class="wg-math">{tex}</span>
      <span class="wg-muted">=</span>
      <span class="wg-mono">{cut < 0 ? numbers : numbers.slice(0, cut)}</span>
      {cut >= 0 && (
        <>
          <span class="wg-muted">=</span>
          <b class="wg-mono wg-bad">{numbers.slice(cut + 1)}</b>
        </>
      )}
    </div>
  );
}

function Table({ table }: { table: NonNullable<Finding["table"]> }) {
  const shown = (cell: string | Num, column: string) => {
    const value = typeof cell === "number" || cell === "nan" || cell === "inf" || cell === "-inf" ? num(cell) : null;
    if (value === null) return { text: String(cell), bad: false };
    const share = column === "bad";
    return { text: share ? `${shownNumber(100 * value, 2)}%` : shownNumber(value, 2), bad: share ? value > 0 : !Number.isFinite(value) };
  };
  // A row may begin with its name, which has no column of its own.
  const names = (table.rows[0]?.length ?? 0) > table.columns.length;
  return (
    <table class="wg-table">
      <thead>
        <tr>
          {names && <td />}
          {table.columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {table.rows.map((row, i) => (
          <tr key={i}>
            {names && <th scope="row">{row[0]}</th>}
            {row.slice(names ? 1 : 0).map((cell, j) => {
              const { text, bad } = shown(cell, table.columns[j] ?? "");
              return (
                <td key={j} class={bad ? "wg-bad" : ""}>
                  {text}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The tensor that shows it: the value for a finding of the forward pass, else the gradient that left broken. */
function whereInTensor(model: Model, finding: Finding): { cells: NonNullable<ReturnType<typeof cellsOf>>; shape: readonly number[]; gradient: boolean } | null {
  if (finding.node < 0) return null;
  const gradient = finding.phase === "backward";
  const nodes = gradient ? [...operandsOf(model, finding.node).filter((o) => hasNaNGradient(model, o)), finding.node] : [finding.node];
  for (const node of nodes) {
    const cells = cellsOf(model, node, gradient);
    if (cells !== null) return { cells, shape: shapeOf(model, node), gradient };
  }
  return null;
}

function cellsOf(model: Model, node: number, gradient: boolean) {
  return detailsOf(model, node, gradient)?.cells ?? null;
}

function Spread({ finding }: { finding: Finding }) {
  const spread = finding.spread;
  if (spread === undefined) return null;
  const line = (n: number, of: number) => (
    <>
      <span class={n > 0 ? "wg-bad" : ""}>{n.toLocaleString("en")}</span> <span class="wg-muted">of {of.toLocaleString("en")}</span>
    </>
  );
  return (
    <section class="wg-section">
      <h2>How far it spread</h2>
      <Fact name="forward values">{line(spread.values, spread.valuesOf)}</Fact>
      <Fact name="parameter gradients">{line(spread.gradients, spread.gradientsOf)}</Fact>
    </section>
  );
}
