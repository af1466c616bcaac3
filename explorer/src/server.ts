/** Pages with a process behind them: the local server's (the explorer, the playground, training under way), a notebook's. */
import { streamHost } from "./hosts/stream";
import { mount, type Mounted } from "./mount";
import { play } from "./parts";
import { pageTrace } from "./trace/page";

export { render } from "./hosts/widget";

/** Such a page says what it is: `<meta name="wengert-server" content="explorer">`, "playground" or "watch". */
export async function startServed(root: Document, server: string): Promise<Pick<Mounted, "unmount"> | null> {
  if (server === "watch") {
    history.replaceState(null, "", location.pathname);
    const element = root.getElementById("wengert");
    if (element === null) return null;
    const { mountWatch } = await import("./views/watch/watch");
    return mountWatch(element, streamHost(server));
  }
  if (server !== "explorer" && server !== "playground") return null;
  const found = await pageTrace(root);
  if (found === null) return null;
  // The playground reads the page's address, which the mounted page changes soon.
  if (server === "playground") await play.load();
  // The address that opened the page works once: it is no address to keep.
  history.replaceState(null, "", location.pathname + location.hash);
  return mount(found.element, found.trace, streamHost(server), server === "playground" ? "play" : "graph");
}
