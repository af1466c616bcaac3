/** The graph on the clock of a schedule, above the chart of its workers. */
import { useSignal, type Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Target } from "../../draw/display";
import { SIGNS, SURVEY } from "../../draw/folded_looks";
import { LESSON, type Metrics } from "../../draw/looks";
import { PALETTES, workerToken, type Palette } from "../../draw/palette";
import { pictureOf } from "../../draw/picture";
import { travelling } from "../../draw/scene";
import { surveyList } from "../../draw/survey_scene";
import type { Item } from "../../fold/visible";
import { openAtFirst, reachable } from "../../fold/open";
import type { LayoutCache } from "../../layout/nested";
import { select, useStore } from "../../state";
import { measuring } from "../graph/lesson_graph";
import { withModulesOnly } from "../graph/lesson_picture";
import { Picture as Board, type Overlay } from "../graph/canvas";
import { useBox } from "../survey/scope_graph";
import type { Passes } from "./passes";
import { edgesAt, nodesAt, pulsesAt, selectionOfItem, stageOf, type Stage } from "./stage";

/** Up to so many, and where they can then be shown at this scale, with as much room as in a lesson. */
const FEW = 24;
const ROOMY = 0.8;
/** Pixels per unit below which chains go on in a new row. */
const READABLE = 0.6;

export function StageView({ passes, now }: { passes: Passes; now: Signal<number> }) {
  const store = useStore();
  const model = store.model.value;
  const { box, width, height } = useBox();
  const small = store.small.value;
  const cache = useRef(new Map<Metrics, LayoutCache>([LESSON, SIGNS, SURVEY].map((metrics) => [metrics, new Map()])));
  const measure = useMemo(measuring, []);
  // What the other views have open would leave the boxes no room here.
  const opened = useSignal<ReadonlySet<number>>(new Set());
  const drawn = useMemo(() => (small ? withModulesOnly(model) : model), [model, small]);
  const open = useMemo(
    () => (small ? new Set(drawn.trace.scopes.parent.keys()) : reachable(model, new Set([...openAtFirst(model), ...opened.value]))),
    [drawn, small, opened.value],
  );
  const picture = useMemo(() => {
    if (width === 0) return null;
    const made = (metrics: Metrics) =>
      pictureOf(drawn, {
        open,
        metrics,
        measure,
        cache: cache.current.get(metrics) as LayoutCache,
        ...(small ? { inlineCopies: true } : { hideConstants: true, wrapWidth: width / READABLE }),
      });
    if (!small) return made(SURVEY);
    const large = drawn.nodes <= FEW ? made(LESSON) : null;
    const { bounds } = large?.layout ?? { bounds: null };
    return large !== null && bounds !== null && Math.min(width / bounds.width, height / bounds.height) >= ROOMY ? large : made(SIGNS);
  }, [drawn, open, width, height]);
  const stage = useMemo(() => (picture === null ? null : stageOf(drawn, picture, passes)), [picture, passes]);
  const items = picture?.graph.items ?? [];
  const selectionAt = (target: Target | null) => {
    if (target === null) return null;
    if ("item" in target) {
      const at = selectionOfItem(items[target.item] as Item);
      // The modules of a small graph have rows of their own here.
      return small && at?.kind === "scope" ? null : at;
    }
    return { kind: "edge", row: picture?.graph.edges[target.edge]?.rows[0] as number } as const;
  };
  const palette = PALETTES[store.theme.value];
  const time = now.value;
  return (
    <div class="wg-stage" ref={box}>
      {stage !== null && (
        <Board
          list={surveyList({ ...stage.picture, nodes: nodesAt(stage, time, store.selection.value, store.hover.value), edges: edgesAt(stage, time) })}
          palette={palette}
          fitKey={stage.picture}
          most={1.2}
          wheel={store.host.kind !== "widget"}
          label={`The graph while it runs, ${stage.picture.graph.boxes} boxes`}
          overlay={onTheWay(stage, time, palette)}
          onPress={(target) => select(store, selectionAt(target))}
          onHover={(target) => (store.hover.value = selectionAt(target))}
          onOpen={(target) => {
            const at = selectionAt(target);
            if (at?.kind !== "scope") return;
            const now = new Set(opened.value);
            if (!now.delete(at.row)) now.add(at.row);
            opened.value = now;
          }}
        />
      )}
    </div>
  );
}

/** What was made runs out along the edges, in the colour of who made it. */
function onTheWay(stage: Stage, now: number, palette: Palette): Overlay | undefined {
  const pulses = pulsesAt(stage, now);
  if (pulses.length === 0) return undefined;
  const { layout, metrics } = stage.picture;
  return (context) => {
    for (const pulse of pulses) {
      context.fillStyle = palette[workerToken(pulse.worker)];
      context.strokeStyle = palette.canvas;
      context.lineWidth = 1.5;
      for (const segment of layout.segments) {
        if (!segment.edges.includes(pulse.edge)) continue;
        const { x, y } = travelling(segment.route, pulse.back ? 1 - pulse.share : pulse.share, pulse.back ? metrics.lane : -metrics.lane);
        context.beginPath();
        context.arc(x, y, metrics.op / 9, 0, 2 * Math.PI);
        context.fill();
        context.stroke();
      }
    }
  };
}
