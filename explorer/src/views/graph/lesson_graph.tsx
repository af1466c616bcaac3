/** A small graph, whole: the formula above it, the two-lane picture, the narrator below. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Target } from "../../draw/display";
import { travelling } from "../../draw/scene";
import { lengthOf } from "../../draw/curves";
import { LESSON } from "../../draw/looks";
import { PALETTES } from "../../draw/palette";
import { canvasMeasure, estimatedWidth, type TextMeasure } from "../../draw/text";
import { equationsOf, holds, namePart, plain } from "../../formula/expression";
import { shownPlural } from "../../format";
import { Formula } from "../../formula/view";
import { Narrator } from "../../panels/lesson/narrator";
import { useSize } from "../../plot/size";
import { litNode, tellingOf } from "../../panels/lesson/telling";
import { about } from "../../parts";
import { moveLeaf, select, useStore, type Store } from "../../state";
import type { Model } from "../../trace/model";
import { seenIn } from "../../fold/copies";
import type { ValueRead } from "../../trace/types";
import type { Rect } from "../../layout/types";
import { Picture, reducedMotion, type Drag, type Overlay } from "./canvas";
import { described, flowsAt, nodeOf, picture, sourceOf, stageOf, type Narrow, type Stage } from "./lesson_picture";

/** Room for the formula and the narrator. */
const INSETS = { top: 96, bottom: 128, side: 20 };
/** Between the narrator and what is above and below it, and about the formula. */
const AROUND_NARRATOR = 36;
const AROUND_FORMULA = 30;

export function LessonGraph() {
  const store = useStore();
  usePlayOnce(store);
  const model = store.model.value;
  const theme = store.theme.value;
  const measure = useMemo(measuring, []);
  const [frame, { width, height }] = useSize<HTMLDivElement>();
  const { stage, narrow } = useStage(model, measure, width);
  const bottom = Math.max(INSETS.bottom, useTallest(frame, ".wg-narrator", width) + AROUND_NARRATOR);
  const top = Math.max(INSETS.top, useTallest(frame, ".wg-formula-line", width) + AROUND_FORMULA);
  const side = narrow ? 0 : INSETS.side;
  const focus = useFocus(stage, happeningAt(store), width - 2 * side, height - top - bottom);
  const fitKey = useMemo(() => ({ stage, top, bottom, focus }), [stage, top, bottom, focus]);
  const list = picture(stage, {
    numbers: store.numbers.value,
    cursor: store.cursor.value,
    selected: rowOf(store.selection.value, "node"),
    hovered: rowOf(store.hover.value, "node"),
    selectedEdge: rowOf(store.selection.value, "edge"),
    moved: store.moved.value,
  });
  const moving = store.playing.value && !reducedMotion();
  const stale = otherwise(store).length > 0;
  return (
    <div class={stale ? "wg-graph is-stale" : "wg-graph"} ref={frame} style={{ "--wg-below": `${bottom}px` }}>
      <Picture
        list={list}
        palette={PALETTES[theme]}
        fitKey={fitKey}
        focus={focus}
        insets={{ top, bottom, side }}
        most={1.3}
        zoom={focus !== undefined}
        clipped={focus !== undefined}
        glides={true}
        wheel={store.host.kind !== "widget"}
        label={described(model, store.cursor.value)}
        onHover={(target) => (store.hover.value = selectionAt(stage, target))}
        onPress={(target) => select(store, selectionAt(stage, target))}
        onDrag={(target) => leafDrag(store, stage, target)}
        canDrag={(target) => movableAt(stage, target) >= 0}
        overlay={dots(stage, store.cursor.value, moving, PALETTES[theme].raised, PALETTES[theme].value)}
        animated={moving}
      />
      <FormulaLine />
      <Narrator />
    </div>
  );
}

/** Below this many pixels per unit numbers are hard to read. */
const READABLE = 0.72;
/** And below this many where the picture goes on in another row: it is better seen whole than at its best. */
const IN_ROWS = 0.6;

/** The graph laid out with room, or closer together where it would else be shown too small. `width` 0 is "not known yet". */
export function useStage(model: Model, measure: TextMeasure, width: number): { stage: Stage; narrow: boolean } {
  return useMemo(() => {
    const fits = ({ layout, metrics }: Stage) => width <= 0 || metrics.inside !== undefined || layout.bounds.width * READABLE <= width;
    const sizes: Narrow[] = [0, 1, 2, 3];
    let stage = stageOf(model, measure);
    const narrow = sizes.find((size) => fits((stage = stageOf(model, measure, size, (0.8 * width) / IN_ROWS)))) ?? 3;
    return { stage, narrow: narrow > 0 || stage.metrics.inside !== undefined };
  }, [model, measure, width]);
}

/** The node in which something happens now; at the start the first one. */
function happeningAt(store: Store): number {
  const { trace } = store.model.value;
  return trace.events.node[Math.max(0, store.cursor.value - 1)] ?? 0;
}

/**
 * What to look at where the whole picture would be too small to be read: as much as can be, with the node in it. It stays
 * where it is until the node leaves it. Undefined where the whole picture can be read.
 */
export function useFocus(stage: Stage, node: number, width: number, height: number): Rect | undefined {
  const kept = useRef<{ stage: Stage; rect: Rect } | null>(null);
  return useMemo(() => {
    const { bounds, boxes } = stage.layout;
    const least = stage.inRows ? IN_ROWS : READABLE;
    const [w, h] = [Math.min(bounds.width, width / least), Math.min(bounds.height, height / least)];
    if (width <= 0 || height <= 0 || (w === bounds.width && h === bounds.height)) return undefined;
    const at = boxes[stage.graph.itemOf[seenIn(stage.model, node)] ?? -1] ?? bounds;
    const last = kept.current?.stage === stage ? kept.current.rect : null;
    if (last !== null && last.width === w && last.height === h && (at === bounds || isIn(at, last))) return last;
    const placed = (middle: number, size: number, from: number, all: number) => Math.max(from, Math.min(from + all - size, middle - size / 2));
    const rect = {
      x: placed(at.x + at.width / 2, w, bounds.x, bounds.width),
      y: placed(at.y + at.height / 2, h, bounds.y, bounds.height),
      width: w,
      height: h,
    };
    kept.current = { stage, rect };
    return rect;
  }, [stage, node, width, height]);
}

function isIn(box: Rect, frame: Rect): boolean {
  return box.x >= frame.x && box.y >= frame.y && box.x + box.width <= frame.x + frame.width && box.y + box.height <= frame.y + frame.height;
}

/**
 * The height of something inside a frame where it was tallest, so that the picture does not jump whenever its text changes;
 * looked at anew at another width.
 */
function useTallest(frame: { readonly current: Element | null }, inside: string, width: number): number {
  const [tallest, setTallest] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current?.querySelector(inside);
    if (element === null || element === undefined) return undefined;
    const height = () => (element as HTMLElement).offsetHeight;
    setTallest(height());
    const resized = new ResizeObserver(() => setTallest((known) => Math.max(known, height())));
    resized.observe(element);
    return () => resized.disconnect();
  }, [frame, inside, width]);
  return tallest;
}

export function measuring(): TextMeasure {
  const context = document.createElement("canvas").getContext("2d");
  return context === null ? estimatedWidth : canvasMeasure(context);
}

/** Longer runs are not played by themselves: nobody would wait for their end. */
const SHORT = 24;
const played = new WeakSet<Store>();

/**
 * A short run is played once when it is first seen, and then rests complete: most readers never touch anything. Not where
 * a link says what to show, nor for those who asked for less motion.
 */
function usePlayOnce(store: Store): void {
  useEffect(() => {
    const { events } = store.model.peek();
    if (played.has(store)) return;
    played.add(store);
    if (events === 0 || events > SHORT || reducedMotion() || location.hash !== "" || store.playing.peek()) return;
    store.cursor.value = 0;
    store.playing.value = true;
  }, [store]);
}

function rowOf(selection: { kind: string; row: number } | null, kind: "node" | "edge"): number {
  return selection?.kind === kind ? selection.row : -1;
}

function selectionAt(stage: Stage, target: Target | null) {
  if (target === null) return null;
  if ("item" in target) {
    const node = nodeOf(stage, target.item);
    return node < 0 ? null : ({ kind: "node", row: node } as const);
  }
  const edge = stage.graph.edges[target.edge]?.rows[0];
  return edge === undefined ? null : ({ kind: "edge", row: edge } as const);
}

// -- leaves that can be dragged

/** The leaf that a drag from a target would move, or -1. */
export function movableAt(stage: Stage, target: Target): number {
  // What moves leaves comes with the panel that tells of them.
  const again = about.module.value;
  if (again === null || "reason" in again.programFor(stage.model)) return -1;
  const node = target.kind === "item" ? nodeOf(stage, target.item) : target.kind === "chip" && target.lane === "value" ? sourceOf(stage, target.edge) : -1;
  return node >= 0 && again.canMove(stage.model, node) ? node : -1;
}

export function leafDrag(store: Store, stage: Stage, target: Target): Drag | null {
  const node = movableAt(stage, target);
  if (node < 0) return null;
  const from = store.numbers.value.value(node) ?? 0;
  const unit = unitOf(from);
  return (dx, _dy, _done, fine) => {
    const by = fine ? unit / 10 : unit;
    // Whole steps: the reader meets round numbers.
    moveLeaf(store, node, Number(((Math.round(from / by) + Math.round(dx / 4)) * by).toPrecision(12)));
  };
}

/** What 4 pixels change a number by: a tenth of its power of ten. */
export function unitOf(value: number): number {
  return value === 0 || !Number.isFinite(value) ? 0.1 : 10 ** (Math.floor(Math.log10(Math.abs(value))) - 1);
}

// -- what flows now

const DOT_GAP = 16;
const SPEED = 70;

/** White dots on the lanes along which something flows now: out with the values, home with the gradients. */
function dots(stage: Stage, cursor: number, moving: boolean, ink: string, ground: string): Overlay | undefined {
  const flows = flowsAt(stage, cursor);
  if (flows.length === 0) return undefined;
  return (context, time) => {
    for (const { route, back, lanes } of flows) {
      const length = lengthOf(route);
      const count = Math.max(2, Math.min(3, Math.floor(length / 40)));
      const drift = moving ? (time * SPEED) / length : 0.3;
      for (let k = 0; k < count; k++) {
        const share = (drift + (k * DOT_GAP) / length) % 1;
        const lane = !lanes ? 0 : back ? LESSON.lane : -LESSON.lane;
        const { x, y } = travelling(route, back ? 1 - share : share, lane);
        context.beginPath();
        context.arc(x, y, back ? 2 : 2.6, 0, 2 * Math.PI);
        context.fillStyle = back ? ink : ground;
        context.fill();
      }
    }
  };
}

// -- the formula

function FormulaLine() {
  const store = useStore();
  const model = store.model.value;
  const root = model.trace.meta.roots[0];
  const equations = useMemo(() => (root === undefined ? [] : equationsOf(model, root)), [model, root]);
  const hovered = rowOf(store.hover.value, "node");
  const told = litNode(model, tellingOf(model, store.numbers.value, store.cursor.value));
  const chosen = rowOf(store.selection.value, "node");
  const lit = [hovered, told, chosen].find((node) => node >= 0) ?? -1;
  // Two lines at most: the loss, and before it the equation in which something happens, else the one before.
  const last = equations.length - 1;
  const happening = equations.findIndex(({ node, parts }) => node === lit || holds(parts, lit));
  const first = happening < 0 || happening === last ? last - 1 : happening;
  const shown = equations.filter((_, i) => i === first || i === last);
  const length = Math.max(0, ...shown.map(({ parts }) => plain(parts).length));
  return (
    <div class={`wg-formula-line${shown.length > 1 || length > 48 ? " is-small" : ""}`}>
      {shown.map(({ node, parts }) => (
        <p key={node}>
          <Formula
            parts={[namePart(model, node), { kind: "text", text: " = " }, ...parts]}
            lit={lit}
            onSelect={(row) => select(store, { kind: "node", row })}
            onHover={(row) => (store.hover.value = row === null ? null : { kind: "node", row })}
          />
        </p>
      ))}
      {model.trace.meta.notes?.map((note) => (
        <small key={note}>{note}</small>
      ))}
      <Otherwise />
    </div>
  );
}

/** What the program took out of the graph and would find otherwise, where leaves were moved. */
function otherwise(store: Store): readonly ValueRead[] {
  return about.module.value?.otherwise(store.model.value, store.moved.value) ?? [];
}

/** Said where leaves were moved so far that the program might have recorded another graph. */
function Otherwise() {
  const store = useStore();
  const model = store.model.value;
  const [read, ...more] = otherwise(store);
  if (read === undefined) return null;
  const { line0, file } = model.trace.spans;
  const path = model.trace.files[file[read.span] ?? -1]?.path;
  const where = path === undefined ? "" : ` at ${path}:${line0[read.span]}`;
  const others = more.length === 0 ? "" : `, and ${shownPlural(more.length, "time")} more`;
  const what =
    read.what === "__bool__"
      ? `With these numbers the program decides otherwise${where}${others}: it may compute something else than this graph.`
      : `The program takes a number out of the graph${where}${others}: what it makes of it is still that of the recorded run.`;
  return (
    <small class="wg-otherwise" role="status">
      {what}
    </small>
  );
}
