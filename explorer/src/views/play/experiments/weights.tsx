/** What is pinned: the weights into a neuron, to be set by hand, and how the result is shown. */
import { edit, type Play } from "../session";
import type { Frame, NetworkFrame, NetworkScene, Scene } from "../messages";

export function Weights({ play, scene, frame }: { play: Play; scene: Scene<NetworkScene>; frame: Frame<NetworkFrame> }) {
  const pinned = play.pinned.value;
  const { weights, biases } = frame.values;
  const row = pinned === null ? undefined : weights[pinned.layer]?.[pinned.unit];
  const isResult = pinned?.layer === weights.length - 1;
  return (
    <section class="wg-section wg-play-weights">
      <h2>{pinned === null || row === undefined ? "Weights" : isResult ? "Weights of the result" : `Weights of layer ${pinned.layer + 1}, neuron ${pinned.unit + 1}`}</h2>
      {pinned === null || row === undefined ? (
        <p class="wg-play-note">Click a neuron, or the result, to set its weights by hand.</p>
      ) : (
        <div class="wg-play-fields">
          {row.map((weight, k) => (
            <Field
              key={k}
              label={pinned.layer === 0 ? (scene.values.features[k] ?? "") : `from neuron ${k + 1}`}
              value={weight}
              set={(value) => edit(play, 2 * pinned.layer, pinned.unit * row.length + k, value)}
            />
          ))}
          <Field label="bias" value={biases[pinned.layer]?.[pinned.unit] ?? 0} set={(value) => edit(play, 2 * pinned.layer + 1, pinned.unit, value)} />
        </div>
      )}
      <label class="wg-play-switch">
        <span>Discretise the output</span>
        <input type="checkbox" role="switch" checked={play.discrete.value} onChange={(event) => (play.discrete.value = event.currentTarget.checked)} />
      </label>
    </section>
  );
}

function Field({ label, value, set }: { label: string; value: number; set: (value: number) => void }) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="number"
        step={0.1}
        value={value}
        onChange={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (Number.isFinite(given) && Math.abs(given) <= 1e6) set(given);
        }}
      />
    </label>
  );
}
