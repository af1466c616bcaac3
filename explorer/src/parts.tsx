/** The parts of the page that not every reader needs, and how they stand in it: each is loaded when it is first shown. */
import { signal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { COLOURS } from "./draw/palette";

export interface Part<T extends object> {
  /** Null until it is there. */
  readonly module: Signal<T | null>;
  /** Why it did not come. */
  readonly wrong: Signal<string>;
  load(): Promise<void>;
}

const parts: Part<object>[] = [];

function part<T extends object>(fetch: () => Promise<T>): Part<T> {
  const [module, wrong] = [signal<T | null>(null), signal("")];
  const made = {
    module,
    wrong,
    async load() {
      try {
        module.value = await fetch();
        wrong.value = "";
      } catch (error) {
        wrong.value = String(error);
      }
    },
  };
  parts.push(made);
  return made;
}

/** What is said of the selected node beyond its numbers, and what runs small scalar graphs again. */
export const about = part(() => import("./panels/lesson/about/about"));
/** The panel of keys. */
export const help = part(() => import("./panels/help"));
/** The survey of large runs, every tab but the lesson's graph, and find. */
export const later = part(() => import("./later"));
/** The Play tab. */
export const play = part(() => import("./views/play/playground"));

/** What a part brings, once that is there; `until` stands in its place before. */
export function From<T extends object>({ part: { module, wrong, load }, until = null, children }: FromProps<T>) {
  const missing = module.value === null;
  useEffect(() => {
    if (missing) void load();
  }, [missing]);
  if (module.value !== null) return <>{children(module.value)}</>;
  if (wrong.value === "") return <>{until}</>;
  return (
    <p class="wg-part-missing" role="alert">
      This part of the page could not be loaded. {wrong.value}
      <button class="wg-button" type="button" onClick={() => void load()}>
        Try again
      </button>
    </p>
  );
}

interface FromProps<T extends object> {
  readonly part: Part<T>;
  readonly until?: ComponentChildren;
  readonly children: (module: T) => ComponentChildren;
}

/**
 * The page's colours, and the styles that parts bring, wherever the page's root is: in a document, or in a notebook's shadow. A part exports its
 * style, where it has one, as `css`.
 */
export function PartStyles() {
  return (
    <>
      <style>{COLOURS}</style>
      {parts.map(({ module: { value } }, i) => value !== null && "css" in value && <style key={i}>{String(value.css)}</style>)}
    </>
  );
}
