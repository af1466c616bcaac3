import { describe, expect, it } from "vitest";
import { isWeights, modelOf } from "../../trace/model";
import { emptyTrace } from "../../trace/empty";
import type { Details, Trace } from "../../trace/types";
import { bars, bytesOf, ordered, weightsOf } from "./rows";

const details = (over: Partial<Details>): Details => ({ min: -1, max: 3, mean: 0, std: 1, nan: 0, inf: 0, zero: 0, size: 4, hist: [1, 2, 0, 4], ...over });

/** Three tensors in two scopes, the last one with a NaN. */
function file(): Trace {
  const empty = emptyTrace("file");
  return {
    ...empty,
    meta: { ...empty.meta, stored: true },
    strings: ["", "file", "block", "w", "b", "float32", "bfloat16"],
    shapes: [[2, 3], [2]],
    scopes: { parent: [-1, 0], name: [1, 2], kind: ["root", "module"], hash: [0, 0] },
    nodes: { op: [-1, -1, -1], scope: [0, 1, 1], kind: [1, 1, 1], name: [3, 3, 4], dtype: [5, 5, 6], shape: [0, 0, 1], span: [-1, -1, -1], flags: [0, 0, 0], flops: [0, 0, 0] },
    stats: {
      value: { rms: btoa(String.fromCharCode(120, 130, 255)), scalar: [null, null, null], size: [0.5, 2, null], details: { "1": details({}), "2": details({ nan: 1 }) } },
      gradient: { rms: btoa("\0\0\0"), scalar: [null, null, null], details: {} },
    },
  };
}

describe("a file of weights", () => {
  const model = modelOf(file());

  it("is told from a run", () => {
    expect(isWeights(model)).toBe(true);
    expect(isWeights(modelOf({ ...file(), meta: { ...file().meta, stored: false } }))).toBe(false);
  });

  it("lists tensors with their paths and bytes", () => {
    const rows = weightsOf(model);
    expect(rows.map((row) => row.path)).toEqual(["w", "block.w", "block.b"]);
    expect(rows.map((row) => row.bytes)).toEqual([24, 24, 4]);
    expect(bytesOf(model, 2)).toBe(4);
  });

  it("orders them, what is not known last", () => {
    const paths = (by: Parameters<typeof ordered>[1]) => ordered(weightsOf(model), by).map((row) => row.path);
    expect(paths("name")).toEqual(["w", "block.w", "block.b"]);
    expect(paths("size")).toEqual(["block.w", "w", "block.b"]);
    expect(paths("bad")[0]).toBe("block.b");
  });

  it("draws a bar for every bin that has elements, and where 0 is", () => {
    const { path, width, zero } = bars(details({}));
    expect(path.split("M").length - 1).toBe(3);
    expect(width).toBe(20);
    expect(zero).toBe(5);
    expect(bars(details({ min: 1 })).zero).toBe(null);
  });
});
