import { describe, expect, it } from "vitest";
import { clock, frameOf, paceOf } from "./messages";

describe("a training under way", () => {
  it("tells how large updates are", () => {
    expect([1e-7, 1e-3, 0.1, Number.NaN, Number.POSITIVE_INFINITY].map(paceOf)).toEqual(["still", "usual", "fast", "unknown", "unknown"]);
  });
  it("writes times", () => {
    expect([0, 7.9, 187, 3765].map(clock)).toEqual(["0:00", "0:07", "3:07", "1:02:45"]);
  });
  it("reads numbers that JSON lacks, and arrays that are not there yet", () => {
    const message = { type: "frame", values: { loss: "nan" }, rows: [{ epoch: 1, val_loss: "inf" }], arrays: { mean: new Float32Array([1]) } };
    const frame = frameOf(message);
    expect(frame.values.loss).toBeNaN();
    expect(frame.rows[0]?.val_loss).toBe(Number.POSITIVE_INFINITY);
    expect([frame.mean.length, frame.norm.length]).toEqual([1, 0]);
  });
});
