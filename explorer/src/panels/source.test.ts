import { describe, expect, it } from "vitest";
import { Sketch } from "../fixtures/sketch";
import { placeOf, sourceLines } from "./source";

function traceWith(text: string[], span: [number, number, number, number]) {
  const sketch = new Sketch("t");
  sketch.op(0, "sum", [sketch.leaf(0, "input", "x", [2])], []);
  const made = sketch.trace();
  made.files = [{ path: "a/model.py", pieces: [{ line: 10, text }] }];
  made.spans = { file: [0], line0: [span[0]], col0: [span[1]], line1: [span[2]], col1: [span[3]] };
  return made;
}

describe("source lines", () => {
  it("mark the exact expression, and lose the indentation that all share", () => {
    const trace = traceWith(["    def f(q):", "        n = (q * q).sum() + 1", "        return n"], [11, 12, 11, 25]);
    const found = sourceLines(trace, 0);
    expect(found?.lines.map((l) => [l.number, l.before, l.marked, l.after])).toEqual([
      [10, "def f(q):", "", ""],
      [11, "    n = ", "(q * q).sum()", " + 1"],
      [12, "    return n", "", ""],
    ]);
    expect(placeOf(trace, 0)).toBe("model.py:11");
  });

  it("mark an expression over several lines, without its indentation", () => {
    const found = sourceLines(traceWith(["y = f(", "    x,", ")"], [10, 4, 12, 1]), 0);
    expect(found?.lines.map((l) => l.marked)).toEqual(["f(", "x,", ")"]);
  });

  it("have nothing to show where the document has no text", () => {
    const trace = traceWith(["x"], [400, 0, 400, 1]);
    expect(sourceLines(trace, 0)).toBeNull();
    expect(sourceLines(trace, -1)).toBeNull();
  });
});
