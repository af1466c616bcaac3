/** The bundle of pages by themselves and of notebooks: `start`, the default export for anywidget, `mount` for anybody. */
import "./styles/base";
import "./styles/tints.css";
import { widget } from "./hosts/widget";
import { mount, type Mounted } from "./mount";
import { pageTrace } from "./trace/page";

export { mount, widget as default };

/** A page by itself holds `<div id="wengert">` and `<script type="application/wengert-trace">` with the packed trace. */
export async function start(root: Document = document): Promise<Mounted | null> {
  const found = await pageTrace(root);
  return found === null ? null : mount(found.element, found.trace);
}

// Where the bundle stands in such a page it begins; elsewhere it finds nothing and waits to be called.
if (typeof document !== "undefined") void start();
