/** The graph on the clock of a schedule, above the chart of its workers. */
import type { Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Target } from "../../draw/display";
import { LESSON, SURVEY, type Metrics } from "../../draw/looks";
import { PALETTES, workerToken, type Palette } from "../../draw/palette";
import { pictureOf } from "../../draw/picture";
import { displayList, travelling } from "../../draw/scene";
import type { Item } from "../../fold/fold";
import { openAtFirst, reachable } from "../../fold/open";
import type { LayoutCache } from "../../layout/nested";
import { scopeFacts } from "../../fold/fold";
import type { Model } from "../../trace/model";
import { select, toggleScope, useStore } from "../../state";
import { measuring } from "../graph/lesson_graph";
import { Picture as Board, type Overlay } from "../graph/canvas";
import { useBox } from "../survey/scope_graph";
import type { Passes } from "./passes";
import { edgesAt, nodesAt, pulsesAt, selectionOfItem, stageOf, type Stage } from "./stage";

/** Up to so many nodes each is shown by itself. */
const EACH = 160;
/** Up to so many, and where they can then be shown at this scale, with as much room as in a lesson. */
const FEW = 24;
const ROOMY = 0.9;
/** Pixels per unit below which chains go on in a new row. */
const READABLE = 0.6;

export function StageView({ passes, now }: { passes: Passes; now: Signal<number> }) {
  const store = useStore();
  const model = store.model.value;
  const { box, width, height } = useBox();
  const cache = useRef(new Map<Metrics, LayoutCache>([LESSON, SURVEY].map((metrics) => [metrics, new Map()])));
  const measure = useMemo(measuring, []);
  const open = useMemo(() => openIn(model, store.open.value), [model, store.open.value]);
  const picture = useMemo(() => {
    if (width === 0) return null;
    const made = (metrics: Metrics) =>
      pictureOf(model, { open, metrics, measure, cache: cache.current.get(metrics) as LayoutCache, hideConstants: model.nodes > FEW, wrapWidth: width / READABLE });
    const large = model.nodes <= FEW ? made(LESSON) : null;
    const { bounds } = large?.layout ?? { bounds: null };
    return large !== null && bounds !== null && Math.min(width / bounds.width, height / bounds.height) >= ROOMY ? large : made(SURVEY);
  }, [model, open, width, height]);
  const stage = useMemo(() => (picture === null ? null : stageOf(model, picture, passes)), [picture, passes]);
  const items = picture?.graph.items ?? [];
  const selectionAt = (target: Target | null) => {
    if (target === null) return null;
    if ("item" in target) return selectionOfItem(items[target.item] as Item);
    return { kind: "edge", row: picture?.graph.edges[target.edge]?.rows[0] as number } as const;
  };
  const palette = PALETTES[store.theme.value];
  const time = now.value;
  return (
    <div class="wg-stage" ref={box}>
      {stage !== null && (
        <Board
          list={displayList({ ...stage.picture, nodes: nodesAt(stage, time, store.selection.value, store.hover.value), edges: edgesAt(stage, time) })}
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
            if (at?.kind === "scope") toggleScope(store, at.row);
          }}
        />
      )}
    </div>
  );
}

/** All of a small graph; of a large one what is open in the other views, or else as much as fits. */
function openIn(model: Model, open: ReadonlySet<number>): ReadonlySet<number> {
  if (model.nodes <= EACH) return new Set(scopeFacts(model).order);
  return reachable(model, new Set([...openAtFirst(model), ...open]));
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
