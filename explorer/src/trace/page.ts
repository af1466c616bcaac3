/** What a page carries. */
import { unpack } from "./decode";
import type { Trace } from "./types";

/** The element that a page gives and the trace that it carries; null where it has none. */
export async function pageTrace(root: Document): Promise<{ element: HTMLElement; trace: Trace } | null> {
  const element = root.getElementById("wengert");
  const script = root.querySelector('script[type="application/wengert-trace"]');
  if (element === null || script === null) return null;
  return { element, trace: await unpack(script.textContent ?? "") };
}
