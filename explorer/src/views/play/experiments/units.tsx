/** Dead ReLUs: every unit as a gauge of how often it is above zero, layer by layer. */
import { Chart } from "../loss_chart";
import { num } from "../../../trace/decode";
import { Card } from "../parts";
import type { Frame, UnitsFrame } from "../messages";

export function UnitsCenter({ frame }: { frame: Frame<UnitsFrame> }) {
  const { active, dead, leak } = frame.values;
  const total = active.reduce((sum, layer) => sum + layer.length, 0);
  const gone = dead.reduce((sum, layer) => sum + layer.length, 0);
  return (
    <div class="wg-play-whole">
      <Card title="How often each unit is above zero" aside={leak ? "with a leak, none can die" : `${gone} of ${total} dead`} wide>
        <div class="wg-play-units">
          {active.map((layer, l) => (
            <section key={l} aria-label={`Layer ${l + 1}: ${dead[l]?.length ?? 0} of ${layer.length} units dead`}>
              <h3>
                layer {l + 1}
                <small class={(dead[l]?.length ?? 0) > 0 ? "wg-bad" : ""}>
                  {dead[l]?.length ?? 0} of {layer.length} dead
                </small>
              </h3>
              <ul>
                {layer.map((share, unit) => (
                  <Unit key={unit} layer={l} unit={unit} share={num(share)} dead={dead[l]?.includes(unit) ?? false} />
                ))}
              </ul>
            </section>
          ))}
        </div>
        <p class="wg-play-legend">
          <span>
            <i class="is-gauge" /> the share of training points for which it is above zero
          </span>
          <span>
            <i class="is-dead" /> dead: zero for all of them, so no gradient comes through
          </span>
        </p>
      </Card>
    </div>
  );
}

function Unit({ layer, unit, share, dead }: { layer: number; unit: number; share: number; dead: boolean }) {
  const words = `Layer ${layer + 1}, unit ${unit + 1}: ${dead ? "dead" : Number.isNaN(share) ? "not a number any more" : `above zero for ${Math.round(share * 100)}% of the points`}`;
  return (
    <li class={dead ? "is-dead" : Number.isNaN(share) ? "is-lost" : ""} title={words}>
      <span class="wg-hidden">{words}</span>
      {!dead && share > 0 && <i style={{ height: `${100 * share}%` }} />}
    </li>
  );
}

export function DeadShare({ frame }: { frame: Frame }) {
  return (
    <section class="wg-section">
      <h2>Dead units</h2>
      <Chart frame={frame} curves={[{ name: "dead", label: "dead", look: "first" }]} scale="share" label="Share of dead units" />
      <p class="wg-play-note">
        Large steps throw biases far below zero; from there a ReLU gives zero for every point, and its gradient is zero. Go back in time and take smaller steps.
      </p>
    </section>
  );
}
