/** The graph behind a step, in the same two lanes as on the Graph tab: what was recorded of the step shown. */
import { useMemo } from "preact/hooks";
import { PALETTES } from "../../draw/palette";
import { select, useStore } from "../../state";
import { Picture } from "../graph/canvas";
import { measuring } from "../graph/lesson_graph";
import { described, nodeOf, picture, stageOf } from "../graph/lesson_picture";
import { Card } from "./parts";
import { useSize } from "./size";

const INSETS = { top: 34, bottom: 12, side: 12 };
/** Below this width, in pixels, things stand closer together. */
const NARROW = 640;
const NOBODY: ReadonlyMap<number, number> = new Map();

export function GraphPanel({ note }: { note: string }) {
  const store = useStore();
  const model = store.model.value;
  const measure = useMemo(measuring, []);
  const [element, size] = useSize<HTMLDivElement>();
  const narrow = size.width < NARROW;
  const stage = useMemo(() => stageOf(model, measure, narrow), [model, measure, narrow]);
  const selected = store.selection.value?.kind === "node" ? store.selection.value.row : -1;
  const hovered = store.hover.value?.kind === "node" ? store.hover.value.row : -1;
  const list = picture(stage, {
    numbers: store.numbers.value,
    // One past the last event: all has happened, nothing is happening.
    cursor: model.events + 1,
    selected,
    hovered,
    selectedEdge: -1,
    moved: NOBODY,
  });
  return (
    <Card title="The graph behind it" aside={note} wide>
      <div class="wg-play-graph wg-graph" ref={element}>
        <Picture
          list={list}
          palette={PALETTES[store.theme.value]}
          fitKey={`${model.nodes} ${model.edges} ${narrow}`}
          insets={INSETS}
          most={1}
          wheel={false}
          label={described(model, model.events)}
          onHover={(target) => {
            const node = target?.kind === "item" ? nodeOf(stage, target.item) : -1;
            store.hover.value = node < 0 ? null : { kind: "node", row: node };
          }}
          onPress={(target) => {
            const node = target?.kind === "item" ? nodeOf(stage, target.item) : -1;
            select(store, node < 0 ? null : { kind: "node", row: node });
          }}
        />
      </div>
    </Card>
  );
}
