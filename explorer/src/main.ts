/** The bundle's front door: `start` for pages by themselves, the default export for notebooks, `mount` for anybody. */
import "./styles/tokens.css";
import "./styles/app.css";
import "./styles/graph.css";
import "./styles/panels.css";
import "./styles/views.css";
import "./styles/play.css";
import { widget } from "./hosts/widget";
import { mount, type Mounted } from "./mount";
import { unpack } from "./trace/decode";

export { mount, widget as default };

/** A page by itself holds `<div id="wengert">` and `<script type="application/wengert-trace">` with the packed trace. */
export async function start(root: Document = document): Promise<Mounted | null> {
  const element = root.getElementById("wengert");
  const script = root.querySelector('script[type="application/wengert-trace"]');
  if (element === null || script === null) return null;
  return mount(element, await unpack(script.textContent ?? ""));
}

// Where the bundle stands in such a page it begins; elsewhere it finds nothing and waits to be called.
if (typeof document !== "undefined") void start();
