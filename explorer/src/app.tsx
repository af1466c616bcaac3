/** The frame: header, left and right panels, the view of the chosen tab, and the clock below. */
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Header } from "./panels/header";
import { Left } from "./panels/left";
import { Right } from "./panels/right";
import { Bottom } from "./panels/bottom";
import { Find } from "./panels/find";
import { Help } from "./panels/help";
import { Mirror } from "./panels/mirror";
import { useStore, type Tab } from "./state";
import { GraphView } from "./views/graph/graph";
import { TapeView } from "./views/tape";
import { PathsView } from "./views/paths";
import { MemoryView } from "./views/memory";
import { ParallelView } from "./views/parallel";
import { KernelsView } from "./views/kernels";
import { DiffView } from "./views/diff";
import { WeightsView } from "./views/weights/weights";

const VIEWS: Partial<Record<Tab, ComponentType>> = {
  graph: GraphView,
  tape: TapeView,
  paths: PathsView,
  memory: MemoryView,
  parallel: ParallelView,
  kernels: KernelsView,
  diff: DiffView,
  weights: WeightsView,
};

/** Adds the view of a tab that not every bundle has. */
export function addView(tab: Tab, View: ComponentType): void {
  VIEWS[tab] = View;
}

export function App() {
  const store = useStore();
  const frame = useRef<HTMLDivElement>(null);
  const theme = store.theme.value;
  const tab = store.tab.value;
  useEffect(() => {
    document.documentElement.dataset.wgTheme = theme;
  }, [theme]);
  const View = VIEWS[tab] ?? GraphView;
  // The playground brings panels and a clock of its own.
  const own = tab === "play" && VIEWS.play !== undefined;
  return (
    <div class={`wg-app wg-tab-${tab}`} data-wg-theme={theme} ref={frame} tabIndex={-1}>
      <Header />
      {own ? (
        <View />
      ) : (
        <>
          <Left />
          <div class="wg-center" id="wg-view" role="tabpanel" aria-labelledby={`wg-tab-${tab}`}>
            <View />
          </div>
          <Right />
          {tab !== "parallel" && tab !== "weights" && <Bottom />}
        </>
      )}
      {store.searching.value && <Find />}
      {store.helping.value && <Help />}
      <Mirror />
    </div>
  );
}
