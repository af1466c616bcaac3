/** The bundle's front door: `start` for pages by themselves, the default export for notebooks, `mount` for anybody. */
import "./styles/tokens.css";
import "./styles/app.css";
import "./styles/graph.css";
import "./styles/panels.css";
import "./styles/clock.css";
import "./styles/tape.css";
import "./styles/views.css";
import "./styles/play_pictures.css";
import "./styles/play.css";
import "./styles/tints.css";
import { socketHost } from "./hosts/socket";
import { widget } from "./hosts/widget";
import { mount, type Mounted } from "./mount";
import { unpack } from "./trace/decode";

export { mount, widget as default };

/**
 * A page holds `<div id="wengert">` and `<script type="application/wengert-trace">` with the packed trace. One of the
 * local server says so, and whether it is the explorer or the playground: `<meta name="wengert-server" content="...">`.
 */
export async function start(root: Document = document): Promise<Mounted | null> {
  const element = root.getElementById("wengert");
  const script = root.querySelector('script[type="application/wengert-trace"]');
  if (element === null || script === null) return null;
  const server = root.querySelector<HTMLMetaElement>('meta[name="wengert-server"]')?.content;
  const trace = await unpack(script.textContent ?? "");
  if (server !== "explorer" && server !== "playground") return mount(element, trace);
  // The address that opened the page works once: it is no address to keep.
  history.replaceState(null, "", location.pathname + location.hash);
  return mount(element, trace, socketHost(server), server === "playground" ? "play" : "graph");
}

// Where the bundle stands in such a page it begins; elsewhere it finds nothing and waits to be called.
if (typeof document !== "undefined") void start();
