/** The bundle of every page and of notebooks: `start`, the default export for anywidget, `mount` for anybody. */
import "./styles/base";
import type { Shown } from "./hosts/widget";
import { loadPart } from "./hosts/load";
import { mount, type Mounted } from "./mount";
import { shelved } from "./shelf";
import { carriedBy } from "./trace/page";

export { loadPart, mount };

/** What anywidget asks for: a notebook's cell with a kernel behind it. */
export default {
  render: async (shown: Shown) => (await import("./server")).render(shown),
};

/** A page by itself holds `<div id="wengert">` and `<script type="application/wengert-trace">` with the packed trace. */
export async function start(root: Document = document): Promise<Pick<Mounted, "unmount"> | null> {
  const told = (name: string) => root.querySelector<HTMLMetaElement>(`meta[name="wengert-${name}"]`)?.content;
  const server = told("server");
  if (server !== undefined) return (await import("./server")).startServed(root, server);
  if (told("page") === "playground") return (await import("./alone")).startAlone(root);
  const found = carriedBy(root);
  return found === null ? null : shelved(found.element, found.traces);
}

// Where the bundle stands in such a page it begins; elsewhere it finds nothing and waits to be called.
if (typeof document !== "undefined") void start();
