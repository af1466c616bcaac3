/** The graph under the list of paths, with the edges of the one that is pointed at. */
import { useMemo } from "preact/hooks";
import { PALETTES } from "../../draw/palette";
import { useSize } from "../../plot/size";
import { useStore } from "../../state";
import { Picture } from "../graph/canvas";
import { leafDrag, measuring, movableAt, useFocus, useStage } from "../graph/lesson_graph";
import { described, nodeOf, picture } from "../graph/lesson_picture";

interface PathsPictureProps {
  readonly from: number;
  readonly to: number;
  readonly band: ReadonlySet<number>;
  readonly onFrom: (row: number) => void;
  readonly onTo: (row: number) => void;
}

/** A click on a node before the end makes it the beginning; on one after it, the end. */
export function PathsPicture({ from, to, band, onFrom, onTo }: PathsPictureProps) {
  const store = useStore();
  const model = store.model.value;
  const measure = useMemo(measuring, []);
  const [frame, { width, height }] = useSize<HTMLDivElement>();
  const { stage } = useStage(model, measure, width);
  const focus = useFocus(stage, from, width, height);
  const fitKey = useMemo(() => ({ stage, focus }), [stage, focus]);
  const list = picture(stage, {
    numbers: store.numbers.value,
    cursor: model.events,
    selected: from,
    hovered: to,
    selectedEdge: -1,
    moved: store.moved.value,
    band,
  });
  return (
    <div class="wg-paths-picture" ref={frame}>
      <Picture
        list={list}
        palette={PALETTES[store.theme.value]}
        fitKey={fitKey}
        focus={focus}
        zoom={focus !== undefined}
        glides={true}
        most={1.1}
        wheel={store.host.kind !== "widget"}
        label={described(model, model.events)}
        onDrag={(target) => leafDrag(store, stage, target)}
        canDrag={(target) => movableAt(stage, target) >= 0}
        onPress={(target) => {
          const node = target?.kind === "item" ? nodeOf(stage, target.item) : -1;
          if (node >= 0 && node !== to) (node < to ? onFrom : onTo)(node);
        }}
      />
    </div>
  );
}
