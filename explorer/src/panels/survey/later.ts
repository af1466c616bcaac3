/** What is seen first is drawn first: the rest of a large page follows with the next frame. */
import { useEffect, useState } from "preact/hooks";
import type { Model } from "../../trace/model";

export function useLater(model: Model): boolean {
  const [ready, setReady] = useState<Model | null>(null);
  useEffect(() => {
    let timer = 0;
    const frame = requestAnimationFrame(() => (timer = window.setTimeout(() => setReady(model))));
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [model]);
  return ready === model;
}
