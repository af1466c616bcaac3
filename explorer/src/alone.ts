/** The playground by itself: a page without a process behind it, whose own small engine trains. */
import { localHost, type Playbook } from "./engine/local";
import book from "./engine/play.json";
import { mount, type Mounted } from "./mount";
import { play } from "./parts";

export async function startAlone(root: Document): Promise<Mounted | null> {
  const element = root.getElementById("wengert");
  if (element === null) return null;
  // It reads the page's address, which the mounted page changes soon.
  await play.load();
  const playbook = book as unknown as Playbook;
  return mount(element, playbook.trace, localHost(playbook), "play");
}
