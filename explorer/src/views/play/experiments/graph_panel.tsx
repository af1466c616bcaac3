/** The graph behind a step, in the same two lanes as on the Graph tab: what was recorded of the step shown. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { PALETTES } from "../../../draw/palette";
import { recordedNumbers, select, useStore } from "../../../state";
import { Picture } from "../../graph/canvas";
import { measuring, useStage } from "../../graph/lesson_graph";
import { described, nodeOf, picture } from "../../graph/lesson_picture";
import { Card } from "../parts";
import { playOf } from "../session";
import { useSize } from "../../../plot/size";

const INSETS = { top: 34, bottom: 12, side: 12 };
const NOBODY: ReadonlyMap<number, number> = new Map();

export function GraphPanel({ step, note }: { step: number; note: string }) {
  const store = useStore();
  const { recorded } = playOf(store);
  // A fast run is recorded when it pauses: until then the graph is that of an earlier step, and says so.
  const late = useLasting(recorded.value !== step);
  const model = store.model.value;
  const measure = useMemo(measuring, []);
  const [element, size] = useSize<HTMLDivElement>();
  const { stage } = useStage(model, measure, size.width);
  const selected = store.selection.value?.kind === "node" ? store.selection.value.row : -1;
  const hovered = store.hover.value?.kind === "node" ? store.hover.value.row : -1;
  const list = picture(stage, {
    numbers: recordedNumbers(model),
    // One past the last event: all has happened, nothing is happening.
    cursor: model.events + 1,
    selected,
    hovered,
    selectedEdge: -1,
    moved: NOBODY,
  });
  return (
    <Card title="The graph behind it" aside={late ? lateNote(recorded.value) : note} wide>
      <div class={late ? "wg-play-graph wg-graph is-stale" : "wg-play-graph wg-graph"} ref={element}>
        <Picture
          list={list}
          palette={PALETTES[store.theme.value]}
          fitKey={`${model.nodes} ${model.edges} ${stage.metrics.rankGap}`}
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

/** Recordings come a moment after their frames: what lasts no longer than that, in milliseconds, is not said. */
const MOMENT = 300;

function useLasting(now: boolean): boolean {
  const [lasting, setLasting] = useState(false);
  useEffect(() => {
    if (!now) {
      setLasting(false);
      return undefined;
    }
    const timer = setTimeout(() => setLasting(true), MOMENT);
    return () => clearTimeout(timer);
  }, [now]);
  return lasting;
}

function lateNote(recorded: number | null): string {
  return recorded === null ? "not recorded yet" : `as it was at step ${recorded}: pause, or go slower, to see the step shown`;
}
