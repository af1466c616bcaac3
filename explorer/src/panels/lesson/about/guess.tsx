/** Guess the gradient: the way back is covered until the reader has said what will arrive, and is checked. */
import { useState } from "preact/hooks";
import { shownNumber } from "../../../format";
import { namePart } from "../../../formula/expression";
import { Formula } from "../../../formula/view";
import { seek, useStore } from "../../../state";
import { recordedGradient, type Model } from "../../../trace/model";
import { factorsOf } from "./paths_section";
import { pathsBetween } from "../../../views/paths/paths";
import { lossPart } from "../telling";

/** Share of the gradient that a guess may be off: two digits are enough. */
const CLOSE = 0.01;

export function canGuess(model: Model, node: number): boolean {
  return model.turn < model.events && node !== model.trace.meta.roots[0] && recordedGradient(model, node) !== null;
}

/** What a guess says of a gradient. */
export function judged(guess: number, gradient: number): "right" | "sign" | "large" | "small" {
  if (Math.abs(guess - gradient) <= CLOSE * Math.abs(gradient) + 1e-9) return "right";
  if (Math.abs(Math.abs(guess) - Math.abs(gradient)) <= CLOSE * Math.abs(gradient)) return "sign";
  return Math.abs(guess) > Math.abs(gradient) ? "large" : "small";
}

const WORDS = {
  right: "Right.",
  sign: "The size is right, the sign is not.",
  large: "Too large.",
  small: "Too small.",
} as const;

export function Guess({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const [given, setGiven] = useState<number | null>(null);
  if (!canGuess(model, node)) return null;
  const gradient = store.numbers.value.gradient(node);
  if (gradient === null) return null;
  if (!store.guessing.value) {
    return (
      <section class="wg-section wg-guess">
        <button
          type="button"
          class="wg-plain-link"
          onClick={() => {
            store.guessing.value = true;
            store.playing.value = false;
            seek(store, model.turn);
          }}
        >
          Guess the gradient
        </button>
      </section>
    );
  }
  const name = <Formula parts={[namePart(model, node)]} />;
  const verdict = given === null ? null : judged(given, gradient);
  const reveal = () => {
    store.guessing.value = false;
    seek(store, model.events);
  };
  return (
    <section class="wg-section wg-guess" aria-label="Guess the gradient">
      <h2>Guess</h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const field = event.currentTarget.elements.namedItem("guess") as HTMLInputElement;
          const value = Number(field.value.replace("−", "-").replace(",", "."));
          setGiven(field.value.trim() === "" || !Number.isFinite(value) ? null : value);
        }}
      >
        <label>
          <span class="wg-derivative">
            ∂<Formula parts={[lossPart(model)]} />/∂{name}
          </span>{" "}
          = <input name="guess" inputMode="decimal" autocomplete="off" aria-label="Your guess" size={8} />
        </label>
        <button type="submit" class="wg-button">
          Check
        </button>
      </form>
      <p role="status" class={verdict === "right" ? "wg-check" : "wg-muted"}>
        {verdict === null ? "Multiply the local derivatives on each way to the loss, and add the ways up." : WORDS[verdict]}
        {verdict !== null && verdict !== "right" && <Hint node={node} />}
      </p>
      <button type="button" class="wg-plain-link" onClick={reveal}>
        {verdict === "right" ? "See how it gets there" : "Show it"}
      </button>
    </section>
  );
}

/** The local derivatives by name, not by number. */
function Hint({ node }: { node: number }) {
  const store = useStore();
  const model = store.model.value;
  const found = pathsBetween(model, store.numbers.value.slope, node, model.trace.meta.roots[0] ?? 0, 1);
  const path = found.best[0];
  if (path === undefined) return null;
  return (
    <>
      {" "}
      {found.count > 1 ? `There are ${shownNumber(found.count)} ways; one is ` : "The way is "}
      {factorsOf(model, path).map(({ edge, of, by }, i) => (
        <span key={edge}>
          {i > 0 && " · "}
          <span class="wg-derivative">
            ∂<Formula parts={[of]} />/∂
            <Formula parts={[by]} />
          </span>
        </span>
      ))}
      .
    </>
  );
}
