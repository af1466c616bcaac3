/** The selected edge: the value on its way out, the local derivative, the gradient on its way home. */
import { shownNumber, shownShape } from "../../../format";
import { localOf, namePart, numbersOf, plain, recordOf } from "../../../formula/expression";
import { Formula } from "../../../formula/view";
import { useStore } from "../../../state";
import { shapeOf } from "../../../trace/model";
import { carries, edgeGradient, hasHanded, hasValue } from "../progress";
import { NotYet } from "../right";
import { SourceSection } from "./source_section";

export function EdgePanel({ edge }: { edge: number }) {
  const store = useStore();
  const model = store.model.value;
  const numbers = store.numbers.value;
  const cursor = store.cursor.value;
  const [source, node, slot] = [model.src[edge] as number, model.dst[edge] as number, model.slot[edge] as number];
  const value = numbers.value(source);
  const slope = numbers.slope(edge);
  const back = edgeGradient(model, numbers, edge);
  const local = localOf(model, node, slot);
  const filled = localOf(model, node, slot, (row) => shownNumber(numbers.value(row) ?? Number.NaN));
  return (
    <>
      <section class="wg-section wg-node-head">
        <header>
          <div>
            <h1>
              <Formula parts={[namePart(model, source)]} /> → <Formula parts={[namePart(model, node)]} />
            </h1>
            <p class="wg-muted">
              <Formula parts={[namePart(model, node)]} /> = <Formula parts={recordOf(model, node)} />
            </p>
          </div>
        </header>
        <dl class="wg-facts">
          <div>
            <dt>value, out</dt>
            <dd>
              {value === null ? (
                shownShape(shapeOf(model, source))
              ) : hasValue(model, source, cursor) ? (
                shownNumber(value)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
          {slope !== null && (
            <div>
              <dt>
                local derivative{" "}
                <span class="wg-derivative">
                  ∂<Formula parts={[namePart(model, node)]} />
                  /∂
                  <Formula parts={[namePart(model, source)]} />
                </span>
              </dt>
              <dd>
                {local !== null && plain(local) !== shownNumber(slope) && (
                  <>
                    <Formula parts={local} /> ={" "}
                  </>
                )}
                {filled !== null && plain(filled) !== shownNumber(slope) && plain(filled) !== plain(local ?? []) && (
                  <>
                    <Formula parts={filled} /> ={" "}
                  </>
                )}
                {shownNumber(slope)}
              </dd>
            </div>
          )}
          <div>
            <dt>gradient, home</dt>
            <dd class="wg-grad">
              {!carries(model, edge) ? (
                "none flows here"
              ) : back === null ? (
                ""
              ) : hasHanded(model, edge, cursor) ? (
                shownNumber(back)
              ) : (
                <NotYet />
              )}
            </dd>
          </div>
        </dl>
        {value !== null && slope !== null && numbersOf(model, node, () => "").length > 0 && (
          <p class="wg-aside">
            What arrives at <Formula parts={[namePart(model, node)]} /> is multiplied by the local derivative on its way
            to <Formula parts={[namePart(model, source)]} />.
          </p>
        )}
      </section>
      <SourceSection node={node} />
    </>
  );
}
