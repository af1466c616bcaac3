/** The frame: header, left and right panels, the view of the chosen tab, and the clock below. */
import { useEffect, useRef } from "preact/hooks";
import { Header } from "./panels/header";
import { Left } from "./panels/left";
import { Right } from "./panels/right";
import { Bottom } from "./panels/bottom";
import { Mirror } from "./panels/mirror";
import { From, help, later, PartStyles, play } from "./parts";
import { useStore, type Tab } from "./state";
import { LessonGraph } from "./views/graph/lesson_graph";

export function App() {
  const store = useStore();
  const frame = useRef<HTMLDivElement>(null);
  const theme = store.theme.value;
  const tab = store.tab.value;
  useEffect(() => {
    document.documentElement.dataset.wgTheme = theme;
  }, [theme]);
  // The playground brings panels and a clock of its own.
  const own = tab === "play" && store.host.send !== undefined;
  return (
    <div class={`wg-app wg-tab-${tab}`} data-wg-theme={theme} ref={frame} tabIndex={-1}>
      <PartStyles />
      <Header />
      {own ? (
        <From part={play}>{({ PlayView }) => <PlayView />}</From>
      ) : (
        <>
          <Left />
          <div class="wg-center" id="wg-view" role="tabpanel" aria-labelledby={`wg-tab-${tab}`}>
            <View tab={tab} />
          </div>
          <Right />
          {tab !== "parallel" && tab !== "ranks" && tab !== "weights" && <Bottom />}
        </>
      )}
      {store.searching.value && <From part={later}>{({ Find }) => <Find />}</From>}
      {store.saving.value && <From part={later}>{({ SavePicture }) => <SavePicture />}</From>}
      {store.helping.value && <From part={help}>{({ Help }) => <Help />}</From>}
      <Mirror />
    </div>
  );
}

/** Small graphs are shown whole, larger ones as a strip of layers with a loupe. */
function View({ tab }: { tab: Tab }) {
  if (tab === "graph" && useStore().small.value) return <LessonGraph />;
  return (
    <From part={later}>
      {({ VIEWS }) => {
        const Shown = VIEWS[tab === "play" ? "graph" : tab];
        return <Shown />;
      }}
    </From>
  );
}
