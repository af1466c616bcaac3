import { expect, test } from "vitest";
import { num, parse, rmsOfCode, unpack } from "./decode";
import { modelOf } from "./model";

/** x, y; m = x * y; n = m * m; the columns written as large documents write them. */
const large = {
  schema: "wengert.trace/1",
  meta: { script: "", title: "t", wengert: "0", roots: [3], values: true },
  strings: [""],
  shapes: [[]],
  ops: { name: ["multiply"], symbol: ["×"], pattern: ["swap"], form: [""], precedence: [2], local: [["", ""]], say: [""] },
  scopes: { parent: [-1], name: [0], kind: ["root"], hash: [0] },
  nodes: {
    op: [-1, -1, 0, 0], scope: [0, 0, 0, 0], kind: [0, 0, 3, 3], name: [0, 0, 0, 0], dtype: [0, 0, 0, 0],
    shape: [0, 0, 0, 0], span: [-1, -1, -1, -1], flags: [0, 0, 0, 0], flops: [0, 0, 1, 1],
  },
  edges: { dst: [2, 0, 1, 0], src: [2, 1, 1, 1], slot: [0, 1, 0, 1] },
  saved: { node: { delta: [2, 0, 1, 0] }, value: { operand: [0, 1, 0, -1] } },
  stats: { value: { rms: "", scalar: [], details: {} }, gradient: { rms: "", scalar: [], details: {} } },
  events: { phase: [0, 0], node: { delta: [2, 1] }, t0: { delta: [5, 7] }, dur: [1, 1], thread: [0, 0] },
  buffers: { bytes: [], class: [], node: [], first: [], last: [] },
  spans: { file: [], line0: [], col0: [], line1: [], col1: [] },
  files: [],
  findings: [],
};

test("differences become numbers, slots of operands their rows", () => {
  const trace = parse(JSON.stringify(large));
  expect(trace.events.t0).toEqual([5, 12]);
  expect(trace.saved).toEqual({ node: [2, 2, 3, 3], value: [0, 1, 2, 3] });
  expect([...modelOf(trace).src]).toEqual([0, 1, 2, 2]);
});

test("whose a buffer is follows from the event that made it", () => {
  // Event 0 is of node 2, whose operands are 0 and 1, event 1 of node 3.
  const buffers = { bytes: [4, 4, 4, 8], class: [4, 0, 2, 2], node: { operand: [-2, -1, 1, -1] }, first: { delta: [-1, 1, 0, 1] }, last: { delta: [1, 0, 0, 0] } };
  const trace = parse(JSON.stringify({ ...large, buffers }));
  expect(trace.buffers.node).toEqual([0, 2, 1, 3]);
  expect(trace.buffers.first).toEqual([-1, 0, 0, 1]);
});

test("rows that stand as they are stay", () => {
  const plain = { ...large, saved: { node: [2], value: [1] } };
  expect(parse(JSON.stringify(plain)).saved).toEqual({ node: [2], value: [1] });
});

test("another format is refused in words", () => {
  expect(() => parse('{"schema": "wengert.trace/2"}')).toThrow("wengert.trace/1");
});

test("packed text is read with and without compression", async () => {
  const text = JSON.stringify(large);
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const packed = btoa(String.fromCharCode(...bytes));
  expect(await unpack(` ${packed}\n`)).toEqual(await unpack(text));
});

test("numbers that JSON lacks travel as words, sizes as codes", () => {
  expect([num("nan"), num("inf"), num("-inf"), num(2)]).toEqual([Number.NaN, Infinity, -Infinity, 2]);
  expect([0, 1, 128, 132, 254, 255].map(rmsOfCode)).toEqual([null, 0, 1, 2, Infinity, Number.NaN]);
});
