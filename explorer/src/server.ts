/** The bundle of the local server's pages: the explorer with a process behind it, and the playground. */
import "./styles/base";
import "./styles/play_pictures.css";
import "./styles/play.css";
import "./styles/tints.css";
import { addView } from "./app";
import { socketHost } from "./hosts/socket";
import { mount, type Mounted } from "./mount";
import { pageTrace } from "./trace/page";
import { PlayView } from "./views/play/play";

addView("play", PlayView);

/** Such a page says what it is: `<meta name="wengert-server" content="explorer">`, or "playground". */
export async function start(root: Document = document): Promise<Mounted | null> {
  const server = root.querySelector<HTMLMetaElement>('meta[name="wengert-server"]')?.content;
  if (server !== "explorer" && server !== "playground") return null;
  const found = await pageTrace(root);
  if (found === null) return null;
  // The address that opened the page works once: it is no address to keep.
  history.replaceState(null, "", location.pathname + location.hash);
  return mount(found.element, found.trace, socketHost(server), server === "playground" ? "play" : "graph");
}

if (typeof document !== "undefined") void start();
