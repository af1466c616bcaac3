/** The reader's own script: its loss, its parameters, and what went wrong with the line at which it did. */
import { num } from "../../../trace/decode";
import { useStore } from "../../../state";
import { Chart } from "../loss_chart";
import { Code } from "../code";
import { plainNumber } from "../../../plot/numbers";
import { Card } from "../parts";
import type { Play } from "../session";
import type { Fault, Frame, ScriptFrame } from "../messages";

export function ScriptCenter({ play, frame }: { play: Play; frame: Frame<ScriptFrame> }) {
  const store = useStore();
  const { file, parameters, count, fault } = frame.values;
  const wrong = frame.fault ?? fault;
  return (
    <div class="wg-play-script">
      <Card title={`${file}, step by step`} wide>
        {wrong !== null && <Wrong fault={wrong} />}
        <div class={`wg-play-big${wrong === null ? "" : " is-below"}`}>
          <Chart frame={frame} curves={[{ name: "loss", label: "loss", look: "first" }]} scale="logarithmic" label="Loss" />
        </div>
      </Card>
      <section class="wg-play-card is-wide is-flowing" aria-label="Parameters">
        <h2>
          Parameters<small>{count > parameters.length ? `the first ${parameters.length} of ${count}` : "size and gradient as root mean squares"}</small>
        </h2>
        {parameters.length === 0 ? (
          <p class="wg-play-empty">
            Call your module <code>model</code>, or put tensors into a list called <code>parameters</code>, to see them here.
          </p>
        ) : (
          <Table frame={frame} />
        )}
        <p>
          <button
            type="button"
            class="wg-button"
            onClick={() => {
              play.send({ type: "record" });
              store.tab.value = "graph";
            }}
          >
            Take a step and look inside
          </button>
        </p>
      </section>
    </div>
  );
}

function Table({ frame }: { frame: Frame<ScriptFrame> }) {
  return (
    <table class="wg-play-table">
      <thead>
        <tr>
          <th scope="col">name</th>
          <th scope="col">shape</th>
          <th scope="col">size</th>
          <th scope="col">gradient</th>
        </tr>
      </thead>
      <tbody>
        {frame.values.parameters.map(({ name, shape, size, gradient }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>[{shape.join(", ")}]</td>
            <td>{plainNumber(num(size))}</td>
            <td class="wg-grad">{gradient === null ? "none" : plainNumber(num(gradient))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Wrong({ fault }: { fault: Fault }) {
  return (
    <div class="wg-play-fault" role="alert">
      <b>{fault.text}</b>
      {fault.line > 0 && (
        <p>
          <span>
            {fault.file}, line {fault.line}
          </span>
          <code>{fault.code}</code>
        </p>
      )}
      <p class="wg-muted">Mend the file and press Reset: it is read again.</p>
    </div>
  );
}

const EXAMPLE = [
  "import wengert as wg",
  "",
  "x = wg.randn(64, 3)",
  "y = x.sum(axis=1)",
  "model = wg.nn.Linear(3, 1)",
  "optimizer = wg.optim.SGD(model.parameters(), lr=0.1)",
  "",
  "def step():",
  "    loss = ((model(x)[:, 0] - y) ** 2).mean()",
  "    optimizer.zero_grad()",
  "    loss.backward()",
  "    optimizer.step()",
  "    return loss",
];

/** How a script joins in, where none was given. */
export function ScriptHelp() {
  return (
    <div class="wg-play-help">
      <h2>Your own script</h2>
      <p>
        Write a Python file with a function <code>step()</code> that trains one step and returns the loss, or a generator <code>run()</code> that yields it. Then
        start the playground with it:
      </p>
      <pre>wengert playground play.py</pre>
      <Code title="For example" lines={EXAMPLE} lit={-1} playing={false} pace={1} step={0} />
      <p>Its loss is drawn as it runs, steps can be recorded and looked into, and errors are shown with their line. Nothing leaves this machine.</p>
    </div>
  );
}
