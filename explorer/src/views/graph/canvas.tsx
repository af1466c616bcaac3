/**
 * A picture that can be moved about: a display list on a canvas, with pan, zoom, and what the pointer is on.
 *
 * Both graph views and the playground draw with it. It holds the view (where it looks, how near) and nothing else:
 * what is drawn comes in as a display list, what the pointer does goes out as targets.
 */
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { paint } from "../../draw/canvas";
import { fitted, zoomed, type DisplayList, type Target, type View } from "../../draw/display";
import { targetAt } from "../../draw/hit";
import type { Palette } from "../../draw/palette";
import type { Rect } from "../../layout/types";

/** Room at the edges of the canvas that something else stands over, in pixels. */
export interface Insets {
  readonly top: number;
  readonly bottom: number;
  readonly side: number;
}

/** A drag that began on a target: called with pixels from its beginning, and `done` once at the end. */
export type Drag = (dx: number, dy: number, done: boolean, fine: boolean) => void;

/** Paints over the list, in the layout's units, `time` in seconds. */
export type Overlay = (context: CanvasRenderingContext2D, time: number) => void;

export interface PictureProps {
  readonly list: DisplayList;
  readonly palette: Palette;
  /** A new picture (another graph, another set of open modules): the view is fitted to it again. */
  readonly fitKey: unknown;
  /** What to fit to; all of it if not given. */
  readonly focus?: Rect | undefined;
  readonly insets?: Insets;
  readonly label: string;
  /** The largest zoom that fitting gives. */
  readonly most?: number;
  /** Whether the wheel alone zooms; in pages that scroll it takes ctrl or ⌘. */
  readonly wheel?: boolean;
  readonly onHover?: (target: Target | null) => void;
  readonly onPress?: (target: Target | null) => void;
  readonly onOpen?: (target: Target) => void;
  /** What a drag from here does; null where it moves the picture. */
  readonly onDrag?: (target: Target) => Drag | null;
  /** Whether a target looks as if it could be dragged. */
  readonly canDrag?: (target: Target) => boolean;
  readonly overlay?: Overlay | undefined;
  /** Whether the overlay moves. */
  readonly animated?: boolean;
  /** Shows buttons that bring the picture nearer, further away, and whole. */
  readonly zoom?: boolean;
  /** Leaves the room at the edges empty, where what does not fit would show through. */
  readonly clipped?: boolean;
  /** The view goes to another focus of the same picture as the eye does, instead of jumping. */
  readonly glides?: boolean;
}

/** What a picture shows now: its list, its colours, and what of it is seen. */
export interface Shown {
  readonly list: DisplayList;
  readonly palette: Palette;
  readonly label: string;
  readonly view: View;
}

let onScreen: Board | null = null;

/** The picture that is on the screen, where there is one. */
export function shownPicture(): Shown | null {
  return onScreen?.shown() ?? null;
}

const NO_INSETS: Insets = { top: 0, bottom: 0, side: 0 };
/** Pixels that a press may move and still be a press. */
const STILL = 4;

export function Picture(props: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const board = useMemo(() => new Board(), []);
  board.props = props;
  useLayoutEffect(() => {
    if (canvas.current === null) return undefined;
    return board.attach(canvas.current);
  }, [board]);
  useLayoutEffect(() => board.refit(), [board, props.fitKey]);
  useEffect(() => board.wake());
  return (
    <>
      <canvas
        ref={canvas}
        class="wg-picture"
        role="img"
        aria-label={props.label}
        tabIndex={0}
        onDblClick={(event) => board.open(event)}
      />
      {props.zoom === true && (
        <div class="wg-zoom" role="group" aria-label="Zoom">
          <button type="button" title="Further away" onClick={() => board.zoomBy(1 / NEARER)}>
            −
          </button>
          <button type="button" title="Nearer" onClick={() => board.zoomBy(NEARER)}>
            +
          </button>
          <button type="button" title="All of it" onClick={() => board.showAll()}>
            all
          </button>
        </div>
      )}
    </>
  );
}

const NEARER = 1.3;
/** Milliseconds that a view takes to another focus. */
const GLIDE = 320;

/** The canvas's own state, outside of rendering: frames and pointers come far more often than changes of the document. */
class Board {
  props!: PictureProps;
  private canvas: HTMLCanvasElement | null = null;
  private view: View | null = null;
  /** The reader has moved the picture: a change of the window's size no longer fits it again. */
  private moved = false;
  private frame = 0;
  /** Where the view comes from while it glides, and since when. */
  private glide: { readonly from: View; readonly since: number } | null = null;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private press: { x: number; y: number; target: Target | null; drag: Drag | null; still: boolean } | null = null;
  private hovered: string = "";

  attach(canvas: HTMLCanvasElement): () => void {
    this.canvas = canvas;
    const resized = new ResizeObserver(() => {
      if (!this.moved) this.refit();
      else if (this.view !== null) this.view = { ...this.view, width: canvas.clientWidth, height: canvas.clientHeight };
      // A canvas is cleared by a change of its size: it is painted before it is seen.
      this.draw(performance.now());
    });
    resized.observe(canvas);
    onScreen = this;
    const listeners: [string, (event: never) => void, boolean][] = [
      ["wheel", (event: WheelEvent) => this.wheel(event), false],
      ["pointerdown", (event: PointerEvent) => this.down(event), true],
      ["pointermove", (event: PointerEvent) => this.move(event), true],
      ["pointerup", (event: PointerEvent) => this.up(event), true],
      ["pointercancel", (event: PointerEvent) => this.up(event), true],
      ["pointerleave", () => this.hover(null), true],
    ];
    for (const [name, listen, passive] of listeners) {
      canvas.addEventListener(name, listen as unknown as EventListener, { passive });
    }
    return () => {
      resized.disconnect();
      cancelAnimationFrame(this.frame);
      for (const [name, listen] of listeners) canvas.removeEventListener(name, listen as unknown as EventListener);
      this.canvas = null;
      if (onScreen === this) onScreen = null;
    };
  }

  shown(): Shown | null {
    const { list, palette, label } = this.props;
    return this.view === null ? null : { list, palette, label, view: this.view };
  }

  refit(): void {
    const { canvas } = this;
    if (canvas === null || canvas.clientWidth === 0) return;
    const { list, focus } = this.props;
    const before = this.view;
    this.view = this.showing(canvas, focus ?? list.bounds, Math.min(24, canvas.clientWidth * 0.02));
    const glides = this.props.glides === true && before?.width === canvas.clientWidth && !reducedMotion();
    this.glide = glides ? { from: before, since: performance.now() } : null;
    this.moved = false;
    this.wake();
  }

  /** The view of something inside of what stands above and below the picture. */
  private showing({ clientWidth: width, clientHeight: height }: HTMLCanvasElement, what: Rect, margin: number): View {
    const { insets = NO_INSETS, most = 1.25 } = this.props;
    const inner = fitted(what, width - 2 * insets.side, height - insets.top - insets.bottom, margin, most);
    return { ...inner, x: inner.x - insets.side / inner.scale, y: inner.y - insets.top / inner.scale, width, height };
  }

  /** What is seen now: on the way to the view, where it glides there. */
  private seen(view: View, now: number): View {
    const { glide } = this;
    const share = glide === null ? 1 : (now - glide.since) / GLIDE;
    if (glide === null || share >= 1 || this.moved) {
      this.glide = null;
      return view;
    }
    this.wake();
    const eased = Math.max(0, share) ** 2 * (3 - 2 * share);
    const between = (a: number, b: number) => a + (b - a) * eased;
    const { from } = glide;
    return { ...view, x: between(from.x, view.x), y: between(from.y, view.y), scale: between(from.scale, view.scale) };
  }

  /** Brings the middle of the picture nearer. */
  zoomBy(factor: number): void {
    if (this.view === null) return;
    this.view = zoomed(this.view, factor, this.view.width / 2, this.view.height / 2);
    this.moved = true;
    this.wake();
  }

  /** Shows all of the picture, however small it becomes. */
  showAll(): void {
    const { canvas } = this;
    if (canvas === null) return;
    this.view = this.showing(canvas, this.props.list.bounds, 12);
    this.moved = true;
    this.wake();
  }

  /** Paints with the next frame. */
  wake(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  private draw(now: number): void {
    this.frame = 0;
    const { canvas, view } = this;
    if (canvas === null || view === null) return;
    const ratio = Math.max(1, devicePixelRatio || 1);
    const [width, height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    if (context === null) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    const { clipped, insets = NO_INSETS } = this.props;
    if (clipped === true) {
      context.beginPath();
      context.rect(0, insets.top * ratio, width, height - (insets.top + insets.bottom) * ratio);
    }
    context.save();
    if (clipped === true) context.clip();
    paint(context, this.props.list, this.seen(view, now), this.props.palette, ratio);
    context.globalAlpha = 1;
    this.props.overlay?.(context, now / 1000);
    context.restore();
    if (this.props.animated === true) this.wake();
  }

  // -- pointers

  private at(event: MouseEvent): { x: number; y: number } {
    const box = (this.canvas as HTMLCanvasElement).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private targetAt(point: { x: number; y: number }): Target | null {
    const { view } = this;
    if (view === null) return null;
    return targetAt(this.props.list, view.x + point.x / view.scale, view.y + point.y / view.scale, 3 / view.scale);
  }

  open(event: MouseEvent): void {
    const target = this.targetAt(this.at(event));
    if (target === null) this.refit();
    else this.props.onOpen?.(target);
  }

  private wheel(event: WheelEvent): void {
    if (this.props.wheel === false && !event.ctrlKey && !event.metaKey) return;
    if (this.view === null) return;
    event.preventDefault();
    const { x, y } = this.at(event);
    // Browsers report lines, pages or pixels; pinches come as a wheel with ctrl, in small steps.
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    this.view = zoomed(this.view, Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
    this.moved = true;
    this.wake();
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const point = this.at(event);
    this.pointers.set(event.pointerId, point);
    // Some pointers (of tests, of pens that have gone) cannot be captured; then the drag ends at the canvas's edge.
    if (this.canvas?.hasPointerCapture(event.pointerId) === false) this.canvas.setPointerCapture(event.pointerId);
    const target = this.targetAt(point);
    const drag = target === null ? null : (this.props.onDrag?.(target) ?? null);
    this.press = { ...point, target, drag, still: true };
  }

  private move(event: PointerEvent): void {
    const point = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (before === undefined || this.view === null) {
      this.hover(this.targetAt(point));
      return;
    }
    this.pointers.set(event.pointerId, point);
    if (this.pointers.size === 2) return this.pinch(event.pointerId, before, point);
    const { press } = this;
    if (press === null) return;
    const [dx, dy] = [point.x - press.x, point.y - press.y];
    if (press.still && Math.hypot(dx, dy) < STILL) return;
    press.still = false;
    if (press.drag !== null) {
      press.drag(dx, dy, false, event.shiftKey);
      return;
    }
    const { view } = this;
    this.view = {
      ...view,
      x: view.x - (point.x - before.x) / view.scale,
      y: view.y - (point.y - before.y) / view.scale,
    };
    this.moved = true;
    this.wake();
  }

  /** Two fingers: what was under each stays under it. */
  private pinch(id: number, before: { x: number; y: number }, now: { x: number; y: number }): void {
    const other = [...this.pointers].find(([key]) => key !== id)?.[1];
    if (other === undefined || this.view === null) return;
    const reach = (point: { x: number; y: number }) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
    this.view = zoomed(this.view, reach(now) / reach(before), other.x, other.y);
    this.press = null;
    this.moved = true;
    this.wake();
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    const { press } = this;
    this.press = null;
    if (press === null) return;
    const point = this.at(event);
    if (press.still) {
      if (event.type === "pointerup") this.props.onPress?.(press.target);
    } else {
      press.drag?.(point.x - press.x, point.y - press.y, true, event.shiftKey);
    }
  }

  private hover(target: Target | null): void {
    const key = target === null ? "" : JSON.stringify(target);
    if (key === this.hovered) return;
    this.hovered = key;
    if (this.canvas !== null) {
      this.canvas.style.cursor = target === null ? "" : this.props.canDrag?.(target) === true ? "ew-resize" : "pointer";
    }
    this.props.onHover?.(target);
  }
}

/** Whether the reader asked for less motion; read anew each time, as it can change. */
export function reducedMotion(): boolean {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}
