import { expect, test } from "vitest";
import { search } from "./search";
import { modelOf } from "./trace/model";
import type { Trace } from "./trace/types";

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
