/** The run as a script: it goes on in Python from the step that is shown, with the same numbers. */
import { num } from "../../../trace/decode";
import type { Num } from "../../../trace/types";
import type { Options } from "../messages";

/** What `state` is answered with: see `Run.told` in `playground/run.py`. */
export interface StateMessage {
  readonly type: "state";
  readonly run: number;
  readonly step: number;
  /** Values of each parameter, nested or one after another. */
  readonly parameters: readonly unknown[];
  /** What the optimiser keeps of each, by name. */
  readonly buffers: readonly Readonly<Record<string, unknown>>[];
  readonly generator: readonly number[];
  readonly points: Readonly<Record<string, readonly [unknown, unknown]>>;
}

/** Steps that the script takes. */
const STEPS = 100;

export function pythonScript(experiment: string, title: string, options: Options, state: StateMessage): string {
  return experiment === "line" ? lineScript(options, state) : networkScript(experiment, title, options, state);
}

const FEATURES: Readonly<Record<string, string>> = { x: "x", y: "y", "x²": "x * x", "y²": "y * y", xy: "x * y", "sin x": "np.sin(x)", "sin y": "np.sin(y)" };

const ACTIVATIONS: Readonly<Record<string, string>> = {
  relu: "F.relu",
  tanh: "F.tanh",
  sigmoid: "F.sigmoid",
  gelu: "F.gelu",
  "leaky relu": "F.leaky_relu",
};

function head(title: string, step: number): string {
  return `"""${title}, from step ${step} on: a run of the playground, continued in Python."""\n`;
}

function optimizer(parameters: string, options: Options): string {
  const rate = String(options.rate);
  if (options.method === "Adam") return `optimizer = wg.optim.Adam(${parameters}, lr=${rate})`;
  return `optimizer = wg.optim.SGD(${parameters}, lr=${rate}${options.method === "momentum" ? ", momentum=0.9" : ""})`;
}

/** Python's numbers: text that JSON and NumPy read alike. */
function written(value: unknown): string {
  return JSON.stringify(value);
}

function flat(values: unknown): number[] {
  return Array.isArray(values) ? values.flatMap(flat) : [num(values as Num)];
}

function number(value: number): string {
  return Number.isFinite(value) ? String(value) : `float("${Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf"}")`;
}

const RESTORED = `for p, kept in zip(parameters, STATE["buffers"]):
    arrays = {name: v if name == "step" else np.array(v, p.dtype).reshape(p.shape) for name, v in kept.items()}
    optimizer.state.setdefault(p, {}).update(arrays)
`;

function lineScript(options: Options, { step, parameters, buffers, generator, points }: StateMessage): string {
  const [x, y] = points.train as readonly [unknown, unknown];
  const [w, b] = parameters.map((values) => number(flat(values)[0] as number));
  const size = Number(options.batch);
  const all = size === flat(x).length;
  const plain = options.method === "plain";
  const update = plain
    ? `    w.grad = b.grad = None
    loss.backward()
    with wg.no_grad():
        w -= ${options.rate} * w.grad
        b -= ${options.rate} * b.grad`
    : `    optimizer.zero_grad()
    loss.backward()
    optimizer.step()`;
  const optimized = plain
    ? ""
    : `
parameters = [w, b]
${optimizer("parameters", options)}
STATE = json.loads('${written({ buffers })}')
${RESTORED}`;
  return `${head("A line", step)}
${plain ? "" : "import json\n\n"}import numpy as np

import wengert as wg
${all ? "" : "from wengert.explorer.playground import Draws  # the playground's random numbers\n"}
X = np.array(${written(x)})
Y = np.array(${written(y)})
w = wg.tensor(${w}, dtype="float64", requires_grad=True)
b = wg.tensor(${b}, dtype="float64", requires_grad=True)
${optimized}${all ? "" : `draws = Draws.at(${written(generator)})\n`}
for step in range(${step}, ${step + STEPS}):
${all ? "    x, y = X, Y" : `    batch = np.sort(draws.chosen(${size}, len(X)))\n    x, y = X[batch], Y[batch]`}
    error = w * x + b - y
    loss = (error**2).mean()
${update}
    print(step + 1, ((w * X + b - Y) ** 2).mean().item(), w.item(), b.item())
`;
}

function networkScript(experiment: string, title: string, options: Options, { step, parameters, buffers, generator, points }: StateMessage): string {
  const names = Object.keys(FEATURES).filter((name) => options[`use ${name}`] ?? (name === "x" || name === "y"));
  const hidden = new Array(Number(options.layers ?? options.depth)).fill(Number(options.width)) as number[];
  const widths = [names.length, ...hidden, 1];
  const activation = ACTIVATIONS[String(options.activation ?? (options.leak === true ? "leaky relu" : "relu"))];
  const [norm, residual] = [options.norm === true, options.residual === true];
  const loss = experiment === "regress" ? "F.mse_loss" : "F.binary_cross_entropy_with_logits";
  const [l1, l2] = [Number(options.l1 ?? 0), Number(options.l2 ?? 0)];
  const penalty = [
    ...(l1 === 0 ? [] : [`        loss = loss + ${l1} * layer.weight.abs().sum()`]),
    ...(l2 === 0 ? [] : [`        loss = loss + 0.5 * ${l2} * (layer.weight * layer.weight).sum()`]),
  ];
  const whole = options.batch === "all" || Number(options.batch) >= flat((points.train as readonly [unknown, unknown])[1]).length;
  return `${head(title, step)}
import json

import numpy as np

import wengert as wg
from wengert import nn
from wengert.nn import functional as F
${whole ? "" : "from wengert.explorer.playground import Draws  # the playground's random numbers\n"}
# Points, parameters and the optimiser's buffers, as they stood.
STATE = json.loads(
    '${written({ points, parameters, buffers, generator })}'
)
WIDTHS = ${written(widths)}


def features(points):
    """What the network is given of each point."""
    x, y = np.array(points, np.float64).T
    return np.stack([${names.map((name) => FEATURES[name]).join(", ")}], axis=1).astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(WIDTHS, WIDTHS[1:])])
${norm ? "        self.norms = nn.ModuleList([nn.LayerNorm(width) for width in WIDTHS[1:-1]])\n" : ""}
    def forward(self, x):
        *hidden, last = self.layers
        for ${norm ? "layer, norm in zip(hidden, self.norms)" : "layer in hidden"}:
            ${residual ? "out" : "x"} = ${activation}(${norm ? "norm(layer(x))" : "layer(x)"})
${residual ? "            x = x + out if x.shape == out.shape else out\n" : ""}        return last(x)[:, 0]


(X, labels), (test_X, test_labels) = (
    (features(part[0]), np.array(part[1], np.float32)) for part in (STATE["points"]["train"], STATE["points"]["test"])
)
net = Net()
parameters = list(net.parameters())
for p, values in zip(parameters, STATE["parameters"]):
    p.data = wg.tensor(np.array(values, np.float32).reshape(p.shape))
${optimizer("parameters", options)}
${RESTORED}${whole ? "" : 'draws = Draws.at(STATE["generator"])\n'}
for step in range(${step}, ${step + STEPS}):
${whole ? "    batch = slice(None)" : `    batch = draws.chosen(${Number(options.batch)}, len(X))`}
    loss = ${loss}(net(X[batch]), labels[batch])
${penalty.length > 0 ? `    for layer in net.layers:\n${penalty.join("\n")}\n` : ""}    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with wg.no_grad():
        print(step + 1, ${loss}(net(X), labels).item(), ${loss}(net(test_X), test_labels).item())
`;
}
