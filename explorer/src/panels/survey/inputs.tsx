/** The inputs that a model was run on; where its process is behind the page they can be changed. */
import { useState } from "preact/hooks";
import { shownShape } from "../../format";
import { useStore } from "../../state";
import type { MadeInputs } from "../../trace/types";
import { Fact } from "./said";

export function Inputs({ made }: { made: MadeInputs }) {
  const store = useStore();
  const live = store.model.value.trace.meta.live === true && store.host.rerun !== undefined;
  return (
    <section class="wg-section wg-inputs" aria-label="Inputs">
      <h2>
        Inputs <small>seed {made.seed}</small>
      </h2>
      {live ? (
        <Form made={made} />
      ) : (
        <>
          {made.list.map(({ name, dtype, shape, how }) => (
            <Fact key={name} name={name}>
              {dtype} {shownShape(shape)} {how}
            </Fact>
          ))}
          {Object.entries(made.sizes).map(([name, size]) => (
            <Fact key={name} name={name}>
              {size}
            </Fact>
          ))}
          <p class="wg-muted">
            <code>--live</code> lets you change them here; <code>--input</code>, <code>--size</code> and <code>--seed</code> do so on the command line.
          </p>
        </>
      )}
    </section>
  );
}

function Form({ made }: { made: MadeInputs }) {
  const store = useStore();
  const [state, setState] = useState<{ running: boolean; error: string }>({ running: false, error: "" });
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const text = (key: string) => String(given.get(key) ?? "").trim();
    const sizes: Record<string, number> = {};
    sizesOf(made).forEach((name, i) => (sizes[name] = Number(text(`size${i}`))));
    const inputs: Record<string, string> = {};
    made.list.forEach(({ name, how }, i) => {
      if (how !== "given" || text(`input${i}`) !== "given") inputs[name] = text(`input${i}`);
    });
    setState({ running: true, error: "" });
    try {
      await store.host.rerun?.({ seed: Number(text("seed")), sizes, inputs });
      location.reload();
    } catch (e) {
      setState({ running: false, error: e instanceof Error ? e.message : String(e) });
    }
  };
  return (
    <form onSubmit={submit}>
      {made.list.map(({ name, dtype, shape, how }, i) => (
        <label key={name}>
          <span title={`${name}, ${dtype} ${shownShape(shape)}`}>
            {name} <small class="wg-muted">{`${dtype} ${shownShape(shape)}`}</small>
          </span>
          <input name={`input${i}`} defaultValue={how} list="wg-fills" spellcheck={false} autocomplete="off" />
        </label>
      ))}
      {sizesOf(made).map((name, i) => (
        <label key={name}>
          <span>{name}</span>
          <input name={`size${i}`} type="number" min={0} defaultValue={String(made.sizes[name])} />
        </label>
      ))}
      <label>
        <span>seed</span>
        <input name="seed" type="number" min={0} defaultValue={String(made.seed)} />
      </label>
      <datalist id="wg-fills">
        {["normal", "uniform", "zeros", "ones", "range"].map((fill) => (
          <option key={fill} value={fill} />
        ))}
      </datalist>
      <button type="submit" class="wg-button" disabled={state.running}>
        {state.running ? "Running…" : "Run again"}
      </button>
      {state.error !== "" && <p class="wg-bad">{state.error.split("\n").slice(0, 2).join(" ")}</p>}
    </form>
  );
}

const sizesOf = (made: MadeInputs): string[] => Object.keys(made.sizes);
