/** The local server's pages: the explorer with a process behind it, the playground, training under way. */
import { streamHost } from "./hosts/stream";
import { mount, type Mounted } from "./mount";
import { play } from "./parts";
import { pageTrace } from "./trace/page";

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
