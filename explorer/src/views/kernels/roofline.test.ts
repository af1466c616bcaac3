import { describe, expect, it } from "vitest";
import type { KernelInfo } from "../../trace/types";
import { sorted } from "./order";
import { commonScope, roofline } from "./roofline";

const kernel = (micros: number | null, bytes: number, flops: number): KernelInfo => ({
  name: "k", kind: "loop", phase: "forward", nodes: [], gradients: [], micros, bytes, flops, code: "",
});

describe("the roofline", () => {
  it("takes its roofs from the best that was measured", () => {
    // 1 GB/s at 0.25 flops per byte; 4 Gflops/s at 8 flops per byte.
    const line = roofline([kernel(1, 1000, 250), kernel(1, 500, 4000), kernel(4, 1000, 500)]);
    expect(line.bandwidth).toBeCloseTo(1e9);
    expect(line.compute).toBeCloseTo(4e9);
    expect(line.places.map((p) => p.share)).toEqual([1, 1, 0.25].map((s) => expect.closeTo(s) as number));
  });

  it("has no place for what was not timed", () => {
    expect(roofline([kernel(null, 10, 10), kernel(1, 0, 10)]).places).toEqual([]);
  });
});

describe("the scope of a kernel", () => {
  it("is the innermost that holds all its nodes", () => {
    const parent = [-1, 0, 1, 1, 0];
    expect(commonScope(parent, [2, 3])).toBe(1);
    expect(commonScope(parent, [2, 2])).toBe(2);
    expect(commonScope(parent, [2, 4])).toBe(0);
    expect(commonScope(parent, [])).toBe(0);
  });
});

it("steps are listed as they run, or by size", () => {
  const kernel = (name: string, bytes: number) => ({ name, kind: "loop", phase: "forward" as const, nodes: [], gradients: [], micros: null, bytes, flops: 0, code: "" });
  const kernels = { target: "", plan: { kernel: [0, 1, 0], text: [], micros: [2, null, 5] }, list: [kernel("a", 1), kernel("b", 9)], sources: {} };
  expect(sorted(kernels, "order")).toEqual([0, 1, 2]);
  expect(sorted(kernels, "time")).toEqual([2, 0, 1]);
  expect(sorted(kernels, "bytes")).toEqual([1, 0, 2]);
});
