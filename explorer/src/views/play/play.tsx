/** The Play tab: live training in the process behind the page, with panels and a clock of its own. */
import { useEffect } from "preact/hooks";
import { num } from "../../trace/decode";
import { useStore } from "../../state";
import { Chart } from "./loss_chart";
import { Code } from "./code";
import { Controls, type Limit } from "./controls";
import { LineArithmetic, LineCenter } from "./line";
import { plainNumber } from "./numbers";
import { Buttons, Pace, Timeline } from "./timeline";
import { open, playOf, seekTo, stepBy, togglePlaying, type Play } from "./session";
import type { Experiment, Frame, LineFrame, LineScene, Scene } from "./messages";

export function PlayView() {
  const store = useStore();
  const play = playOf(store);
  const { value: experiment } = play.experiment;
  const scene = play.scene.value;
  const frame = play.frame.value;
  useKeys(play);
  return (
    <>
      <aside class="wg-left wg-play-left" aria-label="Experiments and settings">
        <TryList play={play} current={experiment} />
        {experiment !== null && frame !== null && (
          <Controls key={experiment.name} play={play} experiment={experiment} options={frame.options} limit={limitOf(experiment, frame)} />
        )}
        {isLine(experiment, frame) && (
          <Code lines={frame.values.code} lit={frame.values.lit} playing={frame.playing} pace={frame.pace} step={frame.step} />
        )}
      </aside>
      <div class="wg-center wg-play-center" id="wg-view" role="tabpanel" aria-labelledby="wg-tab-play">
        {play.lost.value && (
          <p class="wg-play-lost" role="alert">
            The process behind this page has ended. Start it again: <code>wengert playground</code>
          </p>
        )}
        {isLine(experiment, frame) && <LineCenter scene={scene as Scene<LineScene>} frame={frame} />}
      </div>
      <aside class="wg-right" aria-label="The run in numbers">
        {isLine(experiment, frame) && <LineRight scene={scene as Scene<LineScene>} frame={frame} />}
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
          <p>Drag back to any step. The run can be restarted from there.</p>
        )}
      </section>
    </>
  );
}

function isLine(experiment: Experiment | null, frame: Frame | null): frame is Frame<LineFrame> {
  return experiment?.view === "line" && frame !== null;
}

function limitOf(experiment: Experiment, frame: Frame): Limit | null {
  if (!isLine(experiment, frame) || frame.values.limit === null) return null;
  const momentum = frame.options.method === "momentum";
  return { value: num(frame.values.limit), formula: momentum ? "2(1 + β)/λ" : "2/λ", words: "read from this loss’s own curvature." };
}

function TryList({ play, current }: { play: Play; current: Experiment | null }) {
  return (
    <section class="wg-section">
      <h2>Try</h2>
      <ul class="wg-play-try">
        {play.experiments.value.map((experiment) => (
          <li key={experiment.name}>
            <button type="button" aria-pressed={experiment.name === current?.name} onClick={() => open(play, experiment.name)}>
              <span>{experiment.title}</span>
              <small class={experiment.view === "line" ? "wg-math" : ""}>{experiment.aside}</small>
            </button>
          </li>
        ))}
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

/** The clock's keys mean the run while this tab is open. */
function useKeys(play: Play): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const at = event.target;
      if (at instanceof HTMLElement && at.closest("input, select, textarea, [role=dialog], dialog") !== null) return;
      if (event.key === " " && at instanceof HTMLElement && at.closest("button, summary, a") !== null) return;
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
      act();
    };
    // Before the keys of the recording's clock.
    window.addEventListener("keydown", listen, true);
    return () => window.removeEventListener("keydown", listen, true);
  }, [play]);
}
