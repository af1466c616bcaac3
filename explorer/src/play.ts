/** The bundle of the playground by itself: a page without a process behind it, whose own small engine trains. */
import "./styles/base";
import "./styles/play_pictures.css";
import "./styles/play.css";
import "./styles/tints.css";
import { addView } from "./app";
import { localHost, type Playbook } from "./engine/local";
import book from "./engine/play.json";
import { mount, type Mounted } from "./mount";
import { PlayView } from "./views/play/play";

addView("play", PlayView);

export function start(root: Document = document): Mounted | null {
  const element = root.getElementById("wengert");
  const playbook = book as unknown as Playbook;
  return element === null ? null : mount(element, playbook.trace, localHost(playbook), "play");
}

if (typeof document !== "undefined") start();
