/** Help: the keys, from the table that obeys them, and how to read the picture. */
import { KEYS } from "../keys";
import { useStore } from "../state";
import { Dialog } from "./dialog";

export function Help() {
  const store = useStore();
  const close = () => {
    store.helping.value = false;
  };
  return (
    <Dialog label="Help" close={close}>
      <div class="wg-help">
        <h2>Keys</h2>
        <dl>
          <dt>
            <kbd>1</kbd> to <kbd>9</kbd>
          </dt>
          <dd>tabs</dd>
          {KEYS.map((key) => (
            <>
              <dt>
                <kbd>{key.shown}</kbd>
              </dt>
              <dd>{key.does}</dd>
            </>
          ))}
        </dl>
        <h2>Reading the picture</h2>
        <p>
          Each edge has two lanes. The thin grey one carries a value forward; the thick violet one carries the gradient home,
          the thicker the larger. A lane that is not drawn has not happened yet. Circles are inputs, hexagons parameters, squares
          operations; dashed red lanes have lost their gradient to NaN, and a dashed green outline is one compiled kernel.
        </p>
        <button class="wg-button" type="button" onClick={close} autofocus>
          Close
        </button>
      </div>
    </Dialog>
  );
}
