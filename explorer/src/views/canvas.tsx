/** A canvas that follows its box, the screen's density and the theme. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { useStore } from "../state";

export interface Surface {
  readonly context: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
  /** A colour of the theme by its name as style sheets have it, without the "--wg-". */
  colour(name: string): string;
}

export type Paint = (surface: Surface) => void;

/** Draws after every render of the component that calls it, and whenever the box changes. */
export function useCanvas(paint: Paint): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useStore().theme.value;
  const [box, setBox] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const el = canvas.current;
    if (el === null) return;
    const measure = () => setBox((old) => (old.width === el.clientWidth && old.height === el.clientHeight ? old : { width: el.clientWidth, height: el.clientHeight }));
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    measure();
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    const el = canvas.current;
    const context = el?.getContext("2d") ?? null;
    if (el === null || context === null || box.width === 0 || box.height === 0) return;
    const density = Math.max(1, window.devicePixelRatio || 1);
    const [width, height] = [Math.round(box.width * density), Math.round(box.height * density)];
    if (el.width !== width || el.height !== height) {
      el.width = width;
      el.height = height;
    }
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, box.width, box.height);
    paint({ context, width: box.width, height: box.height, colour: colours(el, theme) });
  });
  return canvas;
}

const known = new Map<string, string>();

/** Colours are looked up once for each theme. */
function colours(el: Element, theme: string): (name: string) => string {
  const style = getComputedStyle(el);
  return (name) => {
    const key = `${theme} ${name}`;
    let value = known.get(key);
    if (value === undefined || value === "") {
      value = style.getPropertyValue(`--wg-${name}`).trim();
      known.set(key, value);
    }
    return value;
  };
}
