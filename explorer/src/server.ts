/** The bundle of the local server's pages: the explorer with a process behind it, the playground, training under way. */
import "./styles/base";
import "./styles/play_pictures.css";
import "./styles/play.css";
import "./styles/tints.css";
import "./styles/watch.css";
import { addView } from "./app";
import { streamHost } from "./hosts/stream";
import { mount, type Mounted } from "./mount";
import { pageTrace } from "./trace/page";
import { PlayView } from "./views/play/play";
import { mountWatch } from "./views/watch/watch";

addView("play", PlayView);

/** Such a page says what it is: `<meta name="wengert-server" content="explorer">`, "playground" or "watch". */
export async function start(root: Document = document): Promise<Pick<Mounted, "unmount"> | null> {
  const server = root.querySelector<HTMLMetaElement>('meta[name="wengert-server"]')?.content;
  if (server === "watch") {
    history.replaceState(null, "", location.pathname);
    const element = root.getElementById("wengert");
    return element === null ? null : mountWatch(element, streamHost(server));
  }
  if (server !== "explorer" && server !== "playground") return null;
  const found = await pageTrace(root);
  if (found === null) return null;
  // The address that opened the page works once: it is no address to keep.
  history.replaceState(null, "", location.pathname + location.hash);
  return mount(found.element, found.trace, streamHost(server), server === "playground" ? "play" : "graph");
}

if (typeof document !== "undefined") void start();
