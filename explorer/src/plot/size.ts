/** The size of an element in pixels, as it changes. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export function useSize<E extends HTMLElement>(): [RefObject<E | null>, Size] {
  const element = useRef<E>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const at = element.current;
    if (at === null) return undefined;
    const measure = () => setSize({ width: at.clientWidth, height: at.clientHeight });
    measure();
    const watching = new ResizeObserver(measure);
    watching.observe(at);
    return () => watching.disconnect();
  }, []);
  return [element, size];
}
