/** The Play tab: live training in the process behind the page, with panels and a clock of its own. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { num } from "../../trace/decode";
import { followPointer, leaveUnpressed, takesKeys } from "../../keys";
import { useStore } from "../../state";
import { Chart } from "./loss_chart";
import { Code } from "./code";
import { Controls, type Limit } from "./controls";
import { LineArithmetic, LineCenter } from "./experiments/line";
import { FlowCenter } from "./experiments/flow";
import { NetworkCenter, NetworkRight } from "./experiments/network";
import { plainNumber } from "../../plot/numbers";
import { ScriptCenter, ScriptHelp } from "./experiments/script";
import { Weights } from "./experiments/weights";
import { Onward } from "./onward/onward";
import { DeadShare, UnitsCenter } from "./experiments/units";
import { Buttons, Pace, Timeline } from "./timeline";
import { open, playOf, seekTo, stepBy, togglePlaying, type Play } from "./session";
import type { Experiment, FlowFrame, Frame, LineFrame, LineScene, NetworkFrame, NetworkScene, Scene, ScriptFrame, UnitsFrame } from "./messages";

export function PlayView() {
  const store = useStore();
  const play = playOf(store);
  const experiment = play.experiment.value;
  const scene = play.scene.value;
  const frame = play.frame.value;
  const explains = play.explains.value;
  useKeys(play);
  const shown = !explains && experiment !== null && scene !== null && frame !== null ? parts(play, experiment, scene, frame) : null;
  return (
    <>
      <aside class="wg-left wg-play-left" aria-label="Experiments and settings">
        <TryList play={play} />
        {shown !== null && experiment !== null && frame !== null && (
          <Controls key={experiment.name} play={play} experiment={experiment} options={frame.options} limit={limitOf(experiment, frame)} />
        )}
        {shown?.left}
      </aside>
      <div class="wg-center wg-play-center" id="wg-view" role="tabpanel" aria-labelledby="wg-tab-play">
        {play.lost.value && (
          <p class="wg-play-lost" role="alert">
            The process behind this page has ended. Start it again: <code>wengert playground</code>
          </p>
        )}
        {!explains && frame !== null && frame.diverged !== null && frame.step >= frame.diverged && (
          <p class="wg-play-diverged" role="status">
            Diverged at step {frame.diverged.toLocaleString("en")}. Take smaller steps, or go back to before it.
          </p>
        )}
        {explains ? <ScriptHelp /> : shown?.center}
      </div>
      <aside class="wg-right" aria-label="The run in numbers">
        {shown?.right}
      </aside>
      <section class="wg-play-ctl" aria-label="Transport">
        <Buttons play={play} frame={frame} />
        {frame !== null && <Pace play={play} frame={frame} />}
      </section>
      <section class="wg-play-clock" aria-label="Steps">
        {frame !== null && <Timeline play={play} frame={frame} />}
      </section>
      <section class="wg-play-said">
        {frame?.drifted === true ? (
          <p role="status">Steps that ran again gave other numbers. Seed every random number for an exact past.</p>
        ) : (
          frame !== null && !explains && <Onward play={play} frame={frame} />
        )}
      </section>
    </>
  );
}

interface Parts {
  readonly left?: ComponentChildren;
  readonly center: ComponentChildren;
  readonly right: ComponentChildren;
}

/** What an experiment shows. Its `view` says what its scene and frames hold. */
function parts(play: Play, { view }: Experiment, scene: Scene, frame: Frame): Parts {
  switch (view) {
    case "line": {
      const props = { scene: scene as Scene<LineScene>, frame: frame as Frame<LineFrame> };
      const { code, lit } = props.frame.values;
      return {
        left: <Code lines={code} lit={lit} playing={frame.playing} pace={frame.pace} step={frame.step} />,
        center: <LineCenter play={play} {...props} />,
        right: <LineRight {...props} />,
      };
    }
    case "network":
      return {
        center: <NetworkCenter play={play} scene={scene as Scene<NetworkScene>} frame={frame as Frame<NetworkFrame>} />,
        right: (
          <>
            <Weights play={play} scene={scene as Scene<NetworkScene>} frame={frame as Frame<NetworkFrame>} />
            <NetworkRight frame={frame} />
          </>
        ),
      };
    case "units":
      return {
        center: <UnitsCenter frame={frame as Frame<UnitsFrame>} />,
        right: (
          <>
            <DeadShare frame={frame} />
            <NetworkRight frame={frame} />
          </>
        ),
      };
    case "flow":
      return { center: <FlowCenter frame={frame as Frame<FlowFrame>} />, right: <NetworkRight frame={frame} /> };
    case "script":
      return { center: <ScriptCenter play={play} frame={frame as Frame<ScriptFrame>} />, right: <ScriptRight frame={frame} /> };
  }
}

function ScriptRight({ frame }: { frame: Frame }) {
  const loss = num(frame.history.loss?.[frame.history.steps.indexOf(frame.step)] ?? "nan");
  return (
    <section class="wg-section">
      <h2>The run</h2>
      <dl class="wg-play-facts">
        <dt>loss</dt>
        <dd>{plainNumber(loss)}</dd>
        <dt>step</dt>
        <dd>
          {frame.step} of {frame.horizon}
        </dd>
      </dl>
      <p class="wg-play-note">Going back runs the script again from its start, with the same seed.</p>
    </section>
  );
}

function limitOf(experiment: Experiment, frame: Frame): Limit | null {
  if (experiment.view !== "line") return null;
  const { limit } = (frame as Frame<LineFrame>).values;
  if (limit === null) return null;
  const momentum = frame.options.method === "momentum";
  return { value: num(limit), formula: momentum ? "2(1 + β)/λ" : "2/λ", words: "read from this loss’s own curvature." };
}

function TryList({ play }: { play: Play }) {
  const current = play.experiment.value;
  const explains = play.explains.value;
  const experiments = play.experiments.value;
  const row = (name: string, title: string, aside: string, pressed: boolean, act: () => void, math: boolean) => (
    <li key={name}>
      <button type="button" aria-pressed={pressed} onClick={act}>
        <span>{title}</span>
        <small class={math ? "wg-math" : ""}>{aside}</small>
      </button>
    </li>
  );
  return (
    <section class="wg-section wg-play-choosing">
      <h2>Try</h2>
      <ul class="wg-play-try">
        {experiments.map(({ name, title, aside, view }) => row(name, title, aside, !explains && name === current?.name, () => open(play, name), view === "line"))}
        {experiments.length > 0 &&
          !experiments.some(({ view }) => view === "script") &&
          row("script", "Your own script", "play.py", explains, () => (play.explains.value = true), false)}
      </ul>
    </section>
  );
}

function LineRight({ scene, frame }: { scene: Scene<LineScene>; frame: Frame<LineFrame> }) {
  const least = num(scene.values.least);
  return (
    <>
      <section class="wg-section">
        <h2>Loss</h2>
        <Chart
          frame={frame}
          curves={[{ name: "loss", label: "loss", look: "first" }]}
          guide={{ value: least, label: `best a line can do, ${plainNumber(Number(least.toPrecision(2)))}` }}
          scale="logarithmic"
          label="Loss"
        />
      </section>
      <LineArithmetic scene={scene} frame={frame} />
    </>
  );
}

/** Where arrow keys and those for ends move something else. */
const TAKES_ARROWS = "input:not([type=checkbox]), select, textarea, dialog, [role=tab]";

/** Fields that a pointer sets at once. */
const LETS_GO = ["range", "checkbox", "radio"];

/** The clock's keys mean the run while this tab is open. */
function useKeys(play: Play): void {
  useEffect(() => {
    const pointer = followPointer(window);
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const at = event.target;
      // What the focused element has a use for is its own.
      if (at instanceof HTMLElement && at.closest(event.key === " " ? `${TAKES_ARROWS}, input` : TAKES_ARROWS) !== null) return;
      if (event.key === " " && takesKeys(event, pointer.at())) return;
      const acts: Record<string, () => void> = {
        " ": () => togglePlaying(play),
        ArrowRight: () => stepBy(play, 1),
        ArrowLeft: () => stepBy(play, -1),
        Home: () => seekTo(play, 0),
        End: () => seekTo(play, play.frame.value?.last ?? 0),
      };
      const act = acts[event.key];
      if (act === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === " ") leaveUnpressed(event);
      act();
    };
    // What a pointer has set is let go of: the next key means the run, as it did before the click.
    const letGo = () => {
      const at = document.activeElement;
      if (at instanceof HTMLInputElement && LETS_GO.includes(at.type) && pointer.at() === at) setTimeout(() => at.blur());
      else if (at instanceof HTMLSelectElement && pointer.at() === at) at.blur();
    };
    window.addEventListener("pointerup", letGo);
    window.addEventListener("change", letGo);
    // Before the keys of the recording's clock.
    window.addEventListener("keydown", listen, true);
    return () => {
      window.removeEventListener("pointerup", letGo);
      window.removeEventListener("change", letGo);
      window.removeEventListener("keydown", listen, true);
      pointer.stop();
    };
  }, [play]);
}
