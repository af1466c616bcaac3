import { expect, test } from "vitest";
import { Sketch } from "./fixtures/sketch";
import { search } from "./search";
import { bytesOfBase64 } from "./trace/decode";
import { modelOf } from "./trace/model";
import { FLAG, type Trace } from "./trace/types";

const trace: Trace = {
  schema: "wengert.trace/1",
  meta: { script: "", title: "t", wengert: "0", roots: [2], values: false },
  strings: ["", "run", "encoder", "w", "float32", "h"],
  shapes: [[2, 3]],
  ops: { name: ["tanh"], symbol: ["tanh"], pattern: ["scale"], form: [""], precedence: [9], local: [[""]], say: [""] },
  scopes: { parent: [-1, 0], name: [1, 2], kind: ["root", "module"], hash: [0, 0] },
  nodes: {
    op: [-1, 0, 0], scope: [1, 1, 0], kind: [1, 3, 4], name: [3, 5, 0], dtype: [4, 4, 4], shape: [0, 0, 0],
    span: [-1, -1, -1], flags: [0, 0, 0], flops: [0, 6, 6],
  },
  edges: { dst: [1, 1], src: [1, 1], slot: [0, 0] },
  saved: { node: [], value: [] },
  stats: { value: { rms: "", scalar: [], details: {} }, gradient: { rms: "", scalar: [], details: {} } },
  events: { phase: [0, 0, 1, 1], node: [1, 2, 2, 1], t0: [0, 1, 2, 3], dur: [1, 1, 1, 1], thread: [0, 0, 0, 0] },
  buffers: { bytes: [], class: [], node: [], first: [], last: [] },
  spans: { file: [], line0: [], col0: [], line1: [], col1: [] },
  files: [],
  findings: [],
};
const model = modelOf(trace);

test("modules stand before nodes, and every word counts", () => {
  expect(search(model, "encoder").hits.map((hit) => hit.title)).toEqual(["encoder", "w = param", "h = tanh"]);
  expect(search(model, "enc tanh").hits.map((hit) => hit.selection)).toEqual([{ kind: "node", row: 1 }]);
  expect(search(model, "nothing of this").total).toBe(0);
  expect(search(model, "  ").total).toBe(0);
});

test("hits are limited, and counted", () => {
  const { hits, total } = search(model, "tanh", 1);
  expect([hits.length, total]).toEqual([1, 2]);
});

test("edges are read from differences, and the clock's turn is found", () => {
  expect([...model.dst]).toEqual([1, 2]);
  expect([...model.src]).toEqual([0, 1]);
  expect(model.turn).toBe(2);
  expect([...model.backwardAt]).toEqual([-1, 3, 2]);
});

// -- what is known of a node besides its words

const known = new Sketch("run");
const layer = known.scope(0, "encoder", "module");
const w = known.leaf(layer, "param", "w", [64, 8]);
const idle = known.leaf(layer, "param", "idle", [4]);
const h = known.op(layer, "tanh", [w], [2, 64, 8]);
const dead = known.op(layer, "relu", [h], [2, 64, 8]);
known.op(0, "sum", [dead], []);
const drawn = known.trace(1);
const codes = (text: string, changes: Record<number, number>) => {
  const bytes = bytesOfBase64(text);
  for (const [row, code] of Object.entries(changes)) bytes[Number(row)] = code;
  return btoa(String.fromCharCode(...bytes));
};
const rich = modelOf({
  ...drawn,
  nodes: {
    ...drawn.nodes,
    flags: drawn.nodes.flags.map((_, row) => (row === idle ? FLAG.tracked : FLAG.tracked | FLAG.seenBackward | (row === h ? FLAG.nanBackward : 0))),
    span: drawn.nodes.span.map((_, row) => (row === h ? 0 : row === dead ? 1 : -1)),
  },
  spans: { file: [0, 0], line0: [12, 20], col0: [0, 0], line1: [14, 20], col1: [5, 5] },
  files: [{ path: "Model.py", pieces: [] }],
  stats: { value: { ...drawn.stats.value, rms: codes(drawn.stats.value.rms, { [dead]: 1 }) }, gradient: { ...drawn.stats.gradient, rms: codes(drawn.stats.gradient.rms, { [idle]: 0, [w]: 1 }) } },
});

test.each([
  ["[2,64,8]", [h, dead]],
  ["[2, *, 8] tanh", [h]],
  ["2x64x8", [h, dead]],
  ["model.py:13", [h]],
  [":20", [dead]],
  ["Model.py:1-50", [h, dead]],
  ["model.py:15", []],
  [">512", [h, dead]],
  [">=2kB param", [w]],
  ["<=4 param", [idle]],
  ["nan", [h]],
  ["dead", [dead]],
  ["no gradient", [idle]],
  ["zero gradient", [w]],
  ["float32 tanh", [h]],
  ["float64", []],
])("%s finds what it says", (query, rows) => {
  expect(search(rich, query).rows).toEqual(rows);
});

test("modules are found by words alone", () => {
  expect(search(rich, "encoder").hits[0]?.selection).toEqual({ kind: "scope", row: layer });
  expect(search(rich, "encoder nan").hits.map(({ selection }) => selection)).toEqual([{ kind: "node", row: h }]);
});
