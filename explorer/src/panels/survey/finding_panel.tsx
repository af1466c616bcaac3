/** One finding in full: the arithmetic, where in the tensor, where in the program, what to write instead, how far it went. */
import { num } from "../../trace/decode";
import { detailsOf, opOf, operandsOf, scopePath, shapeOf, type Model } from "../../trace/model";
import type { Details, Finding, Num } from "../../trace/types";
import { useStore } from "../../state";
import { shownNumber, shownShape } from "../../format";
import { hasNaNGradient } from "../../views/survey/totals";
import { placeOf, Source, spanOf } from "../source";
import { momentOf } from "./actions";
import { numbersOf } from "./arithmetic";
import { Cells } from "./cells";
import { Replay } from "./replay";
import { Fact, Said } from "./said";

export function FindingPanel({ finding }: { finding: Finding }) {
  const model = useStore().model.value;
  const span = finding.span ?? (finding.node < 0 ? -1 : spanOf(model, finding.node));
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
      <Replay node={finding.node} span={span} />
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

/** "g · 1/(2√s)" in letters, then in numbers; or the values that it is taken at, and what it gives. */
function Arithmetic({ finding }: { finding: Finding }) {
  const { tex, numbers } = finding.formula as NonNullable<Finding["formula"]>;
  const { joint, given, sign, outcome } = numbersOf(numbers);
  return (
    <div class={`wg-arithmetic wg-${finding.severity}`}>
      <Written text={tex} />
      <span class="wg-muted">{joint}</span>
      <span class="wg-mono">{given}</span>
      {sign !== "" && (
        <>
          <span class="wg-muted">{sign}</span>
          <b class="wg-mono wg-bad">{outcome}</b>
        </>
      )}
    </div>
  );
}

/** A formula of the page: a quotient as a fraction, what is under a root under its line, letters in italics. */
function Written({ text }: { text: string }) {
  const quotient = /^(.*?)(\S+) ?\/ ?(\([^()]*\)|\S+)$/.exec(text);
  if (quotient === null) return <Letters text={text} />;
  const [, before, above, below] = quotient as unknown as [string, string, string, string];
  return (
    <span class="wg-written" role="math" aria-label={text}>
      <Letters text={before} />
      <span class="wg-fraction">
        <span>
          <Letters text={above} />
        </span>
        <span>
          <Letters text={below.replace(/^\((.*)\)$/, "$1")} />
        </span>
      </span>
    </span>
  );
}

function Letters({ text }: { text: string }) {
  return (
    <>
      {text.split(/(√[\p{L}\d]+|\p{L}+)/u).map((part, i) => {
        if (part.startsWith("√")) {
          return (
            <span key={i} class="wg-root">
              √<span>{<Letters text={part.slice(1)} />}</span>
            </span>
          );
        }
        return /^\p{L}$/u.test(part) ? (
          <var key={i} class="wg-math">
            {part}
          </var>
        ) : (
          part
        );
      })}
    </>
  );
}

function Table({ table }: { table: NonNullable<Finding["table"]> }) {
  const shown = (cell: string | Num, column: string) => {
    const value = typeof cell === "number" || cell === "nan" || cell === "inf" || cell === "-inf" ? num(cell) : null;
    const share = column === "bad";
    if (value === null) return { text: String(cell), bad: share && String(cell) !== "0%" };
    return { text: share ? `${shownNumber(100 * value, 2)}%` : shownSize(value), bad: share ? value > 0 : !Number.isFinite(value) };
  };
  // Rows begin with their name, in a column without a title or without a column.
  const named = table.columns[0] === "";
  const columns = named ? table.columns.slice(1) : table.columns;
  const names = (table.rows[0]?.length ?? 0) > columns.length;
  return (
    <table class="wg-table">
      <thead>
        <tr>
          {names && <td />}
          {columns.map((column) => (
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
              const { text, bad } = shown(cell, columns[j] ?? "");
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

/** Two digits and an exponent below a hundredth: columns of such numbers are compared at a glance. */
function shownSize(value: number): string {
  if (value === 0 || !Number.isFinite(value) || Math.abs(value) >= 0.01) return shownNumber(value, 2);
  const [mantissa, exponent] = value.toExponential(1).split("e") as [string, string];
  return `${mantissa.replace("-", "−")}e${exponent.replace("-", "−")}`;
}

/** The tensor that shows it: the value for a finding of the forward pass, else the gradient that left broken. */
function whereInTensor(model: Model, finding: Finding): { cells: NonNullable<Details["cells"]>; shape: readonly number[]; gradient: boolean } | null {
  if (finding.node < 0) return null;
  const gradient = finding.phase === "backward";
  const nodes = gradient ? [...operandsOf(model, finding.node).filter((o) => hasNaNGradient(model, o)), finding.node] : [finding.node];
  for (const node of nodes) {
    const cells = cellsOf(model, node, gradient);
    if (cells) return { cells, shape: shapeOf(model, node), gradient };
  }
  return null;
}

/** A heat strip as recorded; of few elements one is made here, the last axis across. */
function cellsOf(model: Model, node: number, gradient: boolean): Details["cells"] | null {
  const details = detailsOf(model, node, gradient);
  if (details === null) return null;
  const shape = shapeOf(model, node);
  if (details.cells !== undefined || details.values === undefined || shape.length === 0) return details.cells ?? null;
  const cols = shape[shape.length - 1] as number;
  return { rows: details.values.length / cols, cols, values: details.values };
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
