/** A leaf's value as a field: type another number, or step it with the arrow keys, and everything is computed again. */
import { shownNumber } from "../../format";
import { canMove } from "../../scalar/run";
import { programFor } from "../../scalar/recompute";
import { moveLeaf, useStore } from "../../state";
import { recordedValue } from "../../trace/model";
import { plainName } from "../../formula/expression";

export function LeafValue({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const value = store.numbers.value.value(node) ?? Number.NaN;
  const program = programFor(model);
  if (!canMove(model, node) || "reason" in program) {
    const reason = "reason" in program ? program.reason : "";
    return <span title={reason === "" ? undefined : `${reason} Changing it takes a live session.`}>{shownNumber(value)}</span>;
  }
  const was = store.moved.value.has(node) ? recordedValue(model, node) : null;
  return (
    <span class="wg-leaf-value">
      {was !== null && (
        <button type="button" class="wg-plain-link" title="Back to the recorded value (Esc)" onClick={() => moveLeaf(store, node, null)}>
          was {shownNumber(was)}
        </button>
      )}
      <input
        type="number"
        step="any"
        aria-label={`Value of ${plainName(model, node)}`}
        value={Number(value.toPrecision(12))}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (Number.isFinite(given)) moveLeaf(store, node, given);
        }}
      />
    </span>
  );
}
