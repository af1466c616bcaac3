/** What can be asked about a place: its numbers in float64, and the debugger's way there. */
import { num, optionalNum } from "../../trace/decode";
import { detailsOf, type Model } from "../../trace/model";
import type { Details, InFloat64 } from "../../trace/types";
import { useStore } from "../../state";
import { shownNumber } from "../../format";
import { canAsk, useAsked } from "../asking";
import { BreakButton, BreakTold } from "./break_here";
import { Said } from "./said";

export function Replay({ node, span }: { node: number; span: number }) {
  const store = useStore();
  const model = store.model.value;
  const [replay, ask] = useAsked("float64", node);
  const carried = Object.keys(model.trace.replays ?? {}).length;
  const command = breakCommand(model, span);
  const [stop, stopHere] = useAsked("break", span);
  if ((node < 0 || model.events === 0) && command === "") return null;
  return (
    <section class="wg-section wg-replay">
      <div class="wg-replay-buttons">
        {node >= 0 && canAsk(store, "float64", node) && (
          <button type="button" class="wg-button" disabled={replay.state === "waits"} onClick={ask}>
            {replay.state === "waits" ? "Replaying…" : "Replay in float64"}
          </button>
        )}
        {command !== "" && <BreakButton command={command} stop={stop} ask={stopHere} />}
      </div>
      {command !== "" && <BreakTold command={command} stop={stop} />}
      {node >= 0 && !canAsk(store, "float64", node) && (
        <p class="wg-muted">
          <Said text={`${carried > 0 ? "This page carries float64 for the places that its errors name. " : ""}To replay this one takes the program behind the page: \`wengert.explorer.serve(found)\`, in a notebook \`found.show(live=True)\`.`} />
        </p>
      )}
      {replay.state === "failed" && <p class="wg-bad">{replay.reason}</p>}
      {replay.state === "nothing" && <p class="wg-muted">This run cannot be repeated.</p>}
      {replay.state === "there" && <Beside model={model} node={node} found={replay.answer} />}
    </section>
  );
}

/** The debugger, with a breakpoint at a line of the program; "" where the line is not known. */
export function breakCommand(model: Model, span: number): string {
  const { spans, files, meta } = model.trace;
  const path = files[spans.file[span] ?? -1]?.path;
  if (path === undefined || path.startsWith("<") || meta.script === "" || meta.script.startsWith("<")) return "";
  const script = files.find((file) => file.path === meta.script || file.path.endsWith(`/${meta.script}`))?.path ?? meta.script;
  return `python -m pdb -c "break ${path}:${spans.line0[span]}" -c continue ${script}`;
}

function Beside({ model, node, found }: { model: Model; node: number; found: InFloat64 }) {
  const passes = [
    { name: "value", recorded: detailsOf(model, node, false), exact: found.value, error: optionalNum(found.valueError) },
    { name: "gradient", recorded: detailsOf(model, node, true), exact: found.gradient, error: optionalNum(found.gradientError) },
  ].filter(({ exact }) => exact !== null);
  return (
    <table class="wg-table">
      <thead>
        <tr>
          <td />
          <th scope="col">min</th>
          <th scope="col">max</th>
          <th scope="col">bad</th>
        </tr>
      </thead>
      <tbody>
        {passes.flatMap(({ name, recorded, exact, error }) => [
          ...(recorded === null ? [] : [<Line key={`${name}r`} name={`${name}, recorded`} details={recorded} />]),
          <Line key={`${name}e`} name={`${name}, float64`} details={exact as Details} />,
          ...(error === null
            ? []
            : [
                <tr key={`${name}d`}>
                  <th scope="row">difference</th>
                  <td colSpan={3}>{`${shownNumber(error, 2)} of its size`}</td>
                </tr>,
              ]),
        ])}
      </tbody>
    </table>
  );
}

function Line({ name, details }: { name: string; details: Details }) {
  const bad = (details.nan + details.inf) / Math.max(1, details.size);
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{shownNumber(num(details.min), 3)}</td>
      <td>{shownNumber(num(details.max), 3)}</td>
      <td class={bad > 0 ? "wg-bad" : ""}>{shownNumber(100 * bad, 2)}%</td>
    </tr>
  );
}
