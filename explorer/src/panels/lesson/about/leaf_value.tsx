/** A leaf's value as a field: type another number, or step it with the arrow keys, and everything is computed again. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { shownNumber } from "../../../format";
import { canMove } from "../../../scalar/run";
import { programFor } from "../../../scalar/recompute";
import { moveLeaf, useStore } from "../../../state";
import { dtypeOf, recordedValue } from "../../../trace/model";
import { plainName } from "../../../formula/expression";

export function LeafValue({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const value = store.numbers.value.value(node) ?? Number.NaN;
  const program = programFor(model);
  const field = useRef<HTMLInputElement>(null);
  const moved = store.moved.value.has(node);
  const digits = dtypeOf(model, node) === "float32" ? 7 : 12;
  useLayoutEffect(() => {
    // What is being typed ("-", "2.") is left alone until it is let go of, or put back.
    const input = field.current;
    if (input !== null && (input !== document.activeElement || !moved))
      input.value = String(Number(value.toPrecision(digits)));
  });
  if (!canMove(model, node) || "reason" in program) {
    const reason = "reason" in program ? program.reason : "";
    return (
      <span title={reason === "" ? undefined : `${reason} Changing it takes a live session.`}>
        {shownNumber(value)}
      </span>
    );
  }
  const was = store.moved.value.has(node) ? recordedValue(model, node) : null;
  return (
    <span class="wg-leaf-value">
      {was !== null && (
        <button
          type="button"
          class="wg-plain-link"
          title="Back to the recorded value (Esc)"
          onClick={() => moveLeaf(store, node, null)}
        >
          was {shownNumber(was)}
        </button>
      )}
      <input
        ref={field}
        type="number"
        step="any"
        aria-label={`Value of ${plainName(model, node)}`}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (Number.isFinite(given)) moveLeaf(store, node, given);
        }}
      />
    </span>
  );
}
