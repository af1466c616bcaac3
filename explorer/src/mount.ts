/** A trace shown inside an element, with what its host can do. */
import { h, render } from "preact";
import { App } from "./app";
import { pageHost, type Host } from "./hosts/host";
import { listenForKeys } from "./keys";
import { followLocation } from "./location";
import { about } from "./parts";
import { createStore, followTheme, runClock, StoreContext, type Store, type Tab } from "./state";
import { modelOf, onlyTab } from "./trace/model";
import type { Trace } from "./trace/types";

export interface Mounted {
  readonly store: Store;
  unmount(): void;
}

export function mount(element: HTMLElement, trace: Trace, host: Host = pageHost, tab: Tab = "graph"): Mounted {
  const store = createStore(modelOf(trace), host, (model, moved) => about.module.value?.recompute(model, moved) ?? null);
  store.tab.value = onlyTab(store.model.value) ?? (trace.ranks !== undefined ? "ranks" : tab);
  const ends = [runClock(store), followTheme(store), listenForKeys(store, element)];
  // A widget shares its page's address with others.
  if (host.kind !== "widget") ends.push(followLocation(store));
  element.classList.add("wg-host");
  render(h(StoreContext.Provider, { value: store }, h(App, null)), element);
  return {
    store,
    unmount() {
      for (const end of ends) end();
      render(null, element);
      element.classList.remove("wg-host");
    },
  };
}
