/** The line of the program that a node comes from, or at which a leaf is used. */
import { useStore } from "../../../state";
import { consumersOf } from "../../../trace/model";
import { placeOf, Source, spanOf } from "../../source";

export function SourceSection({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const own = spanOf(model, node);
  const used = own >= 0 ? [] : consumersOf(model, node);
  const live = store.last.value >= 0 ? model.trace.events.node[store.last.value] : -1;
  const user = used.find((row) => row === live) ?? used.find((row) => spanOf(model, row) >= 0);
  const span = own >= 0 ? own : user === undefined ? -1 : spanOf(model, user);
  const place = placeOf(model.trace, span);
  if (place === "") return null;
  return (
    <section class="wg-section">
      <h2>
        {own >= 0 ? "Where it came from" : "Where it is used"} <small>{place}</small>
      </h2>
      <Source trace={model.trace} span={span} />
    </section>
  );
}
