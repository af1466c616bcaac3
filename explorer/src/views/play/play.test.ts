import { describe, expect, it } from "vitest";
import fc from "fast-check";
import book from "../../engine/play.json";
import { areaOf } from "./experiments/line";
import { linkedRun, linkText } from "./onward/link";
import type { Experiment, LineScene } from "./messages";
import { decoded, splitter } from "../../hosts/stream";
import { bowlLevels, contour } from "../../plot/contours";
import { link, networkLayout } from "./experiments/network_layout";
import { fixed, signedNumber } from "../../plot/numbers";
import { extent, linear, logarithmic, roundTicks } from "../../plot/scale";

describe("scales", () => {
  it("go there and back", () => {
    fc.assert(
      fc.property(fc.double({ min: -1e6, max: 1e6, noNaN: true }), fc.double({ min: 1e-3, max: 1e6, noNaN: true }), (from, span) => {
        const scale = linear(from, from + span, 10, 310);
        for (const pixel of [10, 100, 310]) expect(scale(scale.inverse(pixel))).toBeCloseTo(pixel, 3);
      }),
    );
    const decades = logarithmic(0.01, 100, 200, 0);
    expect(decades(1)).toBeCloseTo(100);
    expect(decades.inverse(50)).toBeCloseTo(10);
    expect(decades.ticks).toEqual([0.01, 0.1, 1, 10, 100].map((t) => expect.closeTo(t)));
  });

  it("have round ticks within their ends", () => {
    fc.assert(
      fc.property(fc.double({ min: -1e9, max: 1e9, noNaN: true }), fc.double({ min: 1e-6, max: 1e9, noNaN: true }), (from, span) => {
        const ticks = roundTicks(from, from + span, 5);
        expect(ticks.length).toBeLessThanOrEqual(12);
        for (const tick of ticks) {
          expect(tick).toBeGreaterThanOrEqual(from - span * 1e-6 - Math.abs(from) * 1e-9);
          expect(tick).toBeLessThanOrEqual(from + span * (1 + 1e-6) + Math.abs(from) * 1e-9);
        }
      }),
    );
    expect(roundTicks(0, 40, 4)).toEqual([0, 10, 20, 30, 40]);
    expect(roundTicks(3, 3, 4)).toEqual([]);
    expect(roundTicks(0, Number.POSITIVE_INFINITY, 4)).toEqual([]);
  });

  it("write 2 and 5 between powers of ten that are far apart", () => {
    expect(logarithmic(0.15, 0.9, 0, 1).ticks).toEqual([0.2, 0.5].map((t) => expect.closeTo(t)));
  });

  it("leave out what is no number", () => {
    expect(extent([3, Number.NaN, -1, Number.POSITIVE_INFINITY])).toEqual([-1, 3]);
    expect(extent([Number.NaN])).toBeNull();
  });
});

describe("contours", () => {
  const side = 41;
  const grid = Float32Array.from({ length: side * side }, (_, i) => ((i % side) - 20) ** 2 + (Math.floor(i / side) - 20) ** 2);
  const points = (d: string) =>
    d
      .split(/[ML]/)
      .filter(Boolean)
      .map((text) => text.split(" ").map(Number) as [number, number]);

  it("of a round bowl are circles", () => {
    for (const radius of [3.5, 10, 18.2]) {
      const found = points(contour(grid, side, side, radius ** 2, (c) => c * 10, (r) => r * 10));
      expect(found.length).toBeGreaterThan(10);
      for (const [x, y] of found) expect(Math.hypot(x / 10 - 20, y / 10 - 20)).toBeCloseTo(radius, 0);
    }
  });

  it("are closed: every point is the end of two pieces", () => {
    const count = new Map<string, number>();
    for (const point of points(contour(grid, side, side, 101, (c) => c * 10, (r) => r * 10))) {
      count.set(point.join(), (count.get(point.join()) ?? 0) + 1);
    }
    expect([...count.values()].every((n) => n % 2 === 0)).toBe(true);
  });

  it("are none where the level is not met", () => {
    expect(contour(grid, side, side, -1, (c) => c, (r) => r)).toBe("");
  });

  it("stand evenly around the minimum", () => {
    const roots = bowlLevels(2, 102, 5).map((level) => Math.sqrt(level - 2));
    const steps = roots.slice(1).map((root, i) => root - (roots[i] as number));
    for (const step of steps) expect(step).toBeCloseTo(steps[0] as number);
  });
});

describe("the network's picture", () => {
  it("keeps everything apart and within the card", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 7 }),
        fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 330, max: 1600 }),
        fc.integer({ min: 420, max: 1100 }),
        (inputs, widths, width, height) => {
          const { columns, output } = networkLayout(inputs, widths, width, height);
          expect(columns.map((c) => c.length)).toEqual([inputs, ...widths]);
          const boxes = [...columns.flat(), output];
          for (const { x, y, side } of boxes) {
            expect(x).toBeGreaterThanOrEqual(0);
            expect(y).toBeGreaterThanOrEqual(0);
            expect(x + side).toBeLessThanOrEqual(width + 0.01);
            expect(y + side).toBeLessThanOrEqual(height + 0.01);
          }
          for (const [i, a] of boxes.entries()) {
            for (const b of boxes.slice(i + 1)) {
              const apart = a.x + a.side <= b.x + 0.01 || b.x + b.side <= a.x + 0.01 || a.y + a.side <= b.y + 0.01 || b.y + b.side <= a.y + 0.01;
              expect(apart).toBe(true);
            }
          }
        },
      ),
    );
  });

  it("links sides", () => {
    expect(link({ x: 0, y: 0, side: 10 }, { x: 30, y: 20, side: 10 })).toBe("M10.0 5.0C20.0 5.0 20.0 25.0 30.0 25.0");
  });
});

describe("messages with arrays", () => {
  it("are read from where the header says", () => {
    const header = new TextEncoder().encode(JSON.stringify({ type: "x", n: 1, arrays: { a: { offset: 0, dtype: "u1", shape: [3] }, b: { offset: 4, dtype: "f4", shape: [1, 2] } } }));
    const length = header.length + (-header.length & 3);
    const data = new Uint8Array(4 + length + 12).fill(32);
    new DataView(data.buffer).setUint32(0, length, true);
    data.set(header, 4);
    data.set([7, 8, 9, 0], 4 + length);
    new DataView(data.buffer).setFloat32(8 + length, 1.5, true);
    new DataView(data.buffer).setFloat32(12 + length, -2, true);
    const { type, n, arrays } = decoded(data.buffer);
    expect([type, n]).toEqual(["x", 1]);
    expect([...(arrays.a ?? [])]).toEqual([7, 8, 9]);
    expect([...(arrays.b ?? [])]).toEqual([1.5, -2]);
  });

  it("come out of a stream whole, however it is cut", () => {
    const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
    const framed = (head: Uint8Array) => {
      const out = new Uint8Array(8 + head.length);
      new DataView(out.buffer).setUint32(0, 4 + head.length, true);
      new DataView(out.buffer).setUint32(4, head.length, true);
      out.set(head, 8);
      return [...out];
    };
    const said = [{ type: "y" }, { type: "z", n: "x".repeat(300) }, { type: "end" }];
    const bytes = Uint8Array.from(said.flatMap((message) => framed(text(message))));
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 9 }), (cuts) => {
        const heard: unknown[] = [];
        const split = splitter((data) => heard.push(decoded(data)));
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        for (const [i, from] of at.slice(0, -1).entries()) split(bytes.subarray(from, at[i + 1]));
        expect(heard).toEqual(said.map((message) => ({ ...message, arrays: {} })));
      }),
    );
  });
});

describe("numbers", () => {
  it("keep two decimals, or two digits", () => {
    expect([0, 1, -6.874, 0.0138, 12345, Number.NaN].map(fixed)).toEqual(["0.00", "1.00", "−6.87", "0.014", "12345", "NaN"]);
    expect([123456.7, -2345678, 9999.6].map(fixed)).toEqual(["123000", "−2.3e6", "9999.60"]);
    expect([-1, 2].map(signedNumber)).toEqual(["(−1.00)", "2.00"]);
  });
});

describe("the map of the loss", () => {
  const scene = { best: [3, 7], start: [-1.5, 1.2] } as unknown as LineScene;
  it("shows the start and the lowest point, and keeps up with a path that leaves", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ w: fc.double({ min: -1e9, max: 1e9, noNaN: true }), b: fc.double({ min: -1e9, max: 1e9, noNaN: true }) })), (path) => {
        const { w, b } = areaOf(scene, path, [["nan", "inf"]]);
        for (const point of [...path, { w: 3, b: 7 }, { w: -1.5, b: 1.2 }]) {
          expect(point.w >= w[0] - 0.3 * (w[1] - w[0]) && point.w <= w[1] + 0.3 * (w[1] - w[0])).toBe(true);
          expect(point.b >= b[0] - 0.3 * (b[1] - b[0]) && point.b <= b[1] + 0.3 * (b[1] - b[0])).toBe(true);
        }
      }),
    );
    expect(areaOf(scene, [{ w: 4, b: 6 }], [])).toEqual(areaOf(scene, [], []));
  });
});

describe("a link", () => {
  const experiments = book.experiments as never as Experiment[];
  const separate = experiments.find(({ name }) => name === "separate") as Experiment;
  it("says every setting that is not at its default, and is read as it was written", () => {
    const options = { rate: 0.3, layers: 2, data: "own", csv: "x,y,c\n1,2,a & b", "use x²": true, "use x": false };
    const text = linkText(separate, { ...options, width: 8 });
    expect(text).not.toContain("width");
    expect(linkedRun(`#tab=play&${text}`, experiments)).toEqual({ experiment: "separate", options });
  });
  it("leaves out what is wrong in it", () => {
    expect(linkedRun("#play=separate&o.rate=99&o.layers=1.5&o.data=cats&o.l1=&o.other=1&o.use+x=maybe", experiments)).toEqual({ experiment: "separate", options: {} });
    expect(linkedRun("#play=nothing", experiments)).toBeNull();
    expect(linkedRun("", experiments)).toBeNull();
  });
});
