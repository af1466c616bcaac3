import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Sketch } from "../../fixtures/sketch";
import { transformer } from "../../fixtures/transformer";
import { modelOf, type Model } from "../../trace/model";
import { bars, eventsAt, tallest, timelineOf } from "./timeline";

/** A model whose events are these. */
function eventful(events: readonly { t0: number; dur: number; thread: number }[]): Model {
  const sketch = new Sketch("run");
  sketch.op(0, "sum", [sketch.leaf(0, "input", "x", [2])], []);
  const trace = sketch.trace();
  trace.events = {
    phase: events.map(() => 0),
    node: events.map(() => 1),
    t0: events.map((e) => e.t0),
    dur: events.map((e) => e.dur),
    thread: events.map((e) => e.thread),
  };
  return modelOf(trace);
}

const event = fc.record({ t0: fc.integer({ min: 0, max: 5000 }), dur: fc.integer({ min: 1, max: 300 }), thread: fc.integer({ min: 0, max: 3 }) });

describe("the clock's axis", () => {
  it("is monotone, stays in 0 to 1, and finds back from a place to the events before it", () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 60 }), (events) => {
        const sorted = [...events].sort((a, b) => a.t0 - b.t0);
        const line = timelineOf(eventful(sorted));
        for (let k = 0; k < sorted.length; k++) {
          expect(line.from[k]).toBeGreaterThanOrEqual(-1e-9);
          expect(line.to[k]).toBeLessThanOrEqual(1 + 1e-9);
          expect(line.mark[k + 1]).toBeGreaterThanOrEqual(line.mark[k] as number);
          const found = eventsAt(line, line.mark[k + 1] as number);
          expect(found).toBeGreaterThanOrEqual(k + 1);
          expect(line.mark[found]).toBe(line.mark[k + 1]);
        }
      }),
    );
  });

  it("shortens long idle stretches and leaves the order of everything as it is", () => {
    const line = timelineOf(eventful([{ t0: 0, dur: 100, thread: 0 }, { t0: 10_000, dur: 100, thread: 0 }]));
    expect(line.micros).toBe(10_100);
    expect(line.breaks).toHaveLength(1);
    expect(line.breaks[0]?.micros).toBeGreaterThan(9_800);
    // Nearly half of the axis for each of the two, though they took a hundredth of the time each.
    expect((line.to[0] as number) - (line.from[0] as number)).toBeGreaterThan(0.4);
    expect(line.from[1]).toBeGreaterThan(line.to[0] as number);
  });

  it("goes by number where nothing was timed", () => {
    const line = timelineOf(eventful([0, 1, 2, 3].map(() => ({ t0: 0, dur: 0, thread: 0 }))));
    expect([...line.mark]).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(line.micros).toBe(0);
  });
});

describe("bars", () => {
  it("show all the work that was done, however narrow the picture", () => {
    const model = modelOf(transformer({ blocks: 2, heads: 2, broken: -1, extra: 4 }));
    const line = timelineOf(model);
    const tone = new Uint8Array(model.events);
    for (const width of [50, 313, 2000]) {
      const shown = bars(line, tone, 1, width).reduce((sum, bar) => sum + (bar.x1 - bar.x0) * bar.share, 0);
      const real = line.from.reduce((sum, from, k) => sum + ((line.to[k] as number) - from) * width, 0);
      expect(shown / real).toBeGreaterThan(0.97);
      expect(shown / real).toBeLessThan(1.03);
    }
  });

  it("are bounded by the width, not by the events", () => {
    const events = Array.from({ length: 20_000 }, (_, i) => ({ t0: i, dur: 1, thread: i % 4 }));
    const line = timelineOf(eventful(events));
    expect(bars(line, new Uint8Array(events.length), 1, 500).length).toBeLessThanOrEqual(4 * 500);
  });
});

describe("the tallest event of each pixel", () => {
  it("keeps the peak at every width", () => {
    const events = Array.from({ length: 999 }, (_, i) => ({ t0: 10 * i, dur: 10, thread: 0 }));
    const line = timelineOf(eventful(events));
    const size = Float64Array.from(events, (_, i) => (i === 617 ? 100 : i % 7));
    for (const width of [40, 200, 3000]) expect([...tallest(line, size, width)]).toContain(617);
  });
});
