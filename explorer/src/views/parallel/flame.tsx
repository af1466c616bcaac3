/** Time by module, as a flame graph that hangs down; and the ways out to other tools. */
import { useMemo } from "preact/hooks";
import { shownMicros } from "../../format";
import type { Model } from "../../trace/model";
import { chromeTrace, collapsed, flameBoxes, flameOf, flameSvg, save } from "./exports";
import type { Lives } from "./lives";

const ROW = 19;
/** Narrower boxes have no name. */
const NAMED = 0.05;

export function FlameGraph({ model, lives }: { model: Model; lives: Lives }) {
  const flame = useMemo(() => flameOf(model, lives), [model, lives]);
  const boxes = useMemo(() => flameBoxes(flame, 0.002), [flame]);
  const depth = Math.max(0, ...boxes.map((box) => box.depth)) + 1;
  const name = (model.trace.meta.script || model.trace.meta.title).replace(/[^\w.-]+/g, "_");
  return (
    <section class="wg-flame">
      <header>
        <h3>Time by module</h3>
        <span class="wg-muted">save as</span>
        <button type="button" class="wg-link" onClick={() => save(`${name}.trace.json`, JSON.stringify(chromeTrace(model, lives)), "application/json")}>
          Chrome trace
        </button>
        <button type="button" class="wg-link" onClick={() => save(`${name}.stacks.txt`, collapsed(flame), "text/plain")}>
          collapsed stacks
        </button>
        <button type="button" class="wg-link" onClick={() => save(`${name}.flame.svg`, flameSvg(flame), "image/svg+xml")}>
          picture
        </button>
      </header>
      <div class="wg-flame-boxes" style={{ height: `${depth * ROW}px` }} role="img" aria-label={`Time by module, ${boxes.length} boxes`}>
        {boxes.map((box, i) => (
          <span
            key={i}
            class={`wg-flame-box is-${box.depth % 3}`}
            style={{ left: `${100 * box.x}%`, width: `${100 * box.width}%`, top: `${box.depth * ROW}px` }}
            title={`${box.flame.name}: ${shownMicros(box.flame.micros)}, ${(100 * box.width).toFixed(1)}%`}
          >
            {box.width >= NAMED ? box.flame.name : ""}
          </span>
        ))}
      </div>
    </section>
  );
}
