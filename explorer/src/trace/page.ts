/** What a page carries. */
import { unpack } from "./decode";
import type { Trace } from "./types";

export interface Carried {
  readonly name: string;
  unpack(): Promise<Trace>;
}

/** The element that a page gives and the traces that it carries; null where it has none. */
export function carriedBy(root: Document): { element: HTMLElement; traces: readonly Carried[] } | null {
  const element = root.getElementById("wengert");
  const scripts = [...root.querySelectorAll<HTMLElement>('script[type="application/wengert-trace"]')];
  if (element === null || scripts.length === 0) return null;
  const traces = scripts.map((script) => ({ name: script.dataset.name ?? "", unpack: () => unpack(script.textContent ?? "") }));
  return { element, traces };
}

/** The first of them. */
export async function pageTrace(root: Document): Promise<{ element: HTMLElement; trace: Trace } | null> {
  const found = carriedBy(root);
  return found === null ? null : { element: found.element, trace: await (found.traces[0] as Carried).unpack() };
}
