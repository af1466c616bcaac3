/** Clock and memory of the run, with what the step came to. */
import { useEffect, useState } from "preact/hooks";
import type { Model } from "../../trace/model";
import { useStore } from "../../state";
import { shownBytes, shownMicros, shownTime } from "../../format";
import { aliveOf } from "../../views/memory/alive";
import { foreseeLater, foreseenOf, type Foreseen } from "../../views/memory/foreseen";
import { criticalPath, tasksOf } from "../../views/parallel/tasks";
import { Transport } from "../transport";
import { Clock } from "./clock";
import { useLater } from "./later";
import { Fact } from "./said";
import { timelineOf } from "./timeline";

export function SurveyBottom() {
  const store = useStore();
  const model = store.model.value;
  const ready = useLater(model);
  const foreseen = foreseenOf(model).value;
  useEffect(() => foreseeLater(model), [model]);
  return (
    <section class="wg-bottom wg-survey-bottom" aria-label="Clock">
      <div class="wg-controls">
        <Transport />
        <p>
          step <b class="wg-mono">{store.cursor.value.toLocaleString("en")}</b> of <span class="wg-mono">{model.events.toLocaleString("en")}</span>
        </p>
        <p class="wg-muted wg-hints">
          <span>
            <kbd>[</kbd> <kbd>]</kbd> by module
          </span>
          {model.trace.findings.some((f) => f.rule.startsWith("nan")) && (
            <span>
              <kbd>N</kbd> first NaN
            </span>
          )}
          <span>
            <kbd>P</kbd> peak
          </span>
        </p>
      </div>
      {model.events === 0 && <p class="wg-none wg-no-clock">Nothing was run: this is the graph's structure alone.</p>}
      {ready && model.events > 0 && <Clock ghost={foreseen?.line ?? null} />}
      {ready && model.events > 0 && <Step model={model} foreseen={foreseen} />}
    </section>
  );
}

function Step({ model, foreseen }: { model: Model; foreseen: Foreseen | null }) {
  const [critical, setCritical] = useState<number | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => setCritical(criticalPath(tasksOf(model)).micros), 80);
    return () => clearTimeout(timer);
  }, [model]);
  const alive = aliveOf(model);
  const micros = timelineOf(model).micros;
  const { kernels, meta } = model.trace;
  return (
    <div class="wg-step-facts">
      <h2>This step</h2>
      <Fact name="peak memory">{shownBytes(alive.peak)}</Fact>
      {foreseen !== null && (
        <>
          <Fact name="with checkpoints" tone="wg-kernel">
            {shownBytes(foreseen.peak)}
          </Fact>
          <Fact name={foreseen.of === "time" ? "extra time" : "extra compute"}>+{Math.round(100 * foreseen.extra)}%</Fact>
        </>
      )}
      <Fact name="wall time">{shownTime(micros > 0 ? micros : 1e6 * (meta.seconds ?? 0))}</Fact>
      {critical !== null && critical > 0 && <Fact name="critical path">{shownMicros(critical)}</Fact>}
      {kernels !== undefined && <Fact name="kernels after fusion">{kernels.list.length.toLocaleString("en")}</Fact>}
    </div>
  );
}
