/** The bundle's front door: `mount` for hosts that hold an element and a trace, and pages that start by themselves. */
import "./styles/tokens.css";
import "./styles/app.css";
import "./styles/graph.css";
import "./styles/panels.css";
import "./styles/views.css";
import "./styles/play.css";
import { h, render } from "preact";
import { App } from "./app";
import { pageHost, type Host } from "./hosts/host";
import { recompute } from "./scalar/recompute";
import { createStore, runClock, StoreContext, type Store } from "./state";
import { followLocation } from "./location";
import { listenForKeys } from "./keys";
import { unpack } from "./trace/decode";
import { modelOf } from "./trace/model";
import type { Trace } from "./trace/types";

export interface Mounted {
  readonly store: Store;
  unmount(): void;
}

export function mount(element: HTMLElement, trace: Trace, host: Host = pageHost): Mounted {
  const store = createStore(modelOf(trace), host, recompute);
  const ends = [runClock(store), listenForKeys(store, element)];
  if (host.kind !== "widget") ends.push(followLocation(store));
  render(h(StoreContext.Provider, { value: store }, h(App, null)), element);
  return {
    store,
    unmount() {
      for (const end of ends) end();
      render(null, element);
    },
  };
}

/** A page by itself holds `<div id="wengert">` and `<script type="application/wengert-trace">` with the packed trace. */
export async function start(root: Document = document): Promise<Mounted | null> {
  const element = root.getElementById("wengert");
  const script = root.querySelector('script[type="application/wengert-trace"]');
  if (element === null || script === null) return null;
  return mount(element, await unpack(script.textContent ?? ""));
}

// Where the bundle stands in such a page it begins; elsewhere it finds nothing and waits to be called.
if (typeof document !== "undefined") void start();
