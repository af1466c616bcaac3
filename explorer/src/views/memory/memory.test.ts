import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Sketch } from "../../fixtures/sketch";
import { transformer } from "../../fixtures/transformer";
import { modelOf } from "../../trace/model";
import { aliveOf, heldAt, lifeOf } from "./alive";
import { bestWhatIf, cuts, whatIf } from "./checkpoint";
import { byLayer } from "./holders";
import { treemap } from "./treemap";
import { stripOf } from "../survey/strip";

const model = modelOf(transformer({ blocks: 6, heads: 2, broken: -1, extra: 6 }));

describe("what is alive", () => {
  it("is the sum of the buffers that are there, at every event", () => {
    const { total, peak, peakAt, bands } = aliveOf(model);
    const { bytes } = model.trace.buffers;
    for (let k = 0; k < model.events; k += 37) {
      const held = heldAt(model, k).reduce((sum, b) => sum + (bytes[b] as number), 0);
      expect(total[k]).toBe(held);
      expect(bands.reduce((sum, band) => sum + (band[k] as number), 0)).toBe(held);
    }
    expect(peak).toBe(Math.max(...total));
    expect(total[peakAt]).toBe(peak);
  });

  it("belongs to one layer each", () => {
    const held = heldAt(model, aliveOf(model).peakAt);
    const groups = byLayer(model, stripOf(model), held);
    expect(groups.reduce((n, group) => n + group.buffers.length, 0)).toBe(held.length);
    expect(groups.reduce((sum, group) => sum + group.bytes, 0)).toBe(aliveOf(model).peak);
  });
});

describe("checkpoints", () => {
  /** Three layers that each keep two values of 400 bytes and hand one of 4 bytes on. */
  function chain() {
    const g = new Sketch("chain");
    let x = g.leaf(0, "input", "x", [1]);
    const list = g.scope(0, "layers");
    for (let i = 0; i < 3; i++) {
      const s = g.scope(list, String(i));
      const wide = g.op(s, "exp", [x], [100]);
      x = g.op(s, "sum", [g.op(s, "exp", [wide], [100])], [1]);
    }
    g.op(0, "mean", [x], []);
    return modelOf(g.trace(1));
  }

  it("drop what a region keeps between its end and its backward pass, and no more", () => {
    const m = chain();
    const layers = m.childScopes[1] as number[];
    const { line } = whatIf(m, layers.map((s) => [s]));
    const before = aliveOf(m).total;
    // At the turn all three layers' 800 bytes are gone: no backward pass has begun. What two of them handed on stays,
    // 4 bytes each, which nobody kept before: the layers after them are made from it again.
    const turn = m.forwardAt[m.nodes - 1] as number;
    expect((before[turn] as number) - (line[turn] as number)).toBe(3 * 800 - 2 * 4);
    // When all is over nothing differs.
    expect(line[m.events - 1]).toBe(before[m.events - 1]);
  });

  it("run a region again with all that its forward pass needs", () => {
    const m = chain();
    const layers = m.childScopes[1] as number[];
    const { line, peak } = whatIf(m, layers.map((s) => [s]));
    const first = Math.min(...(m.childNodes[layers[2] as number] as number[]).map((n) => m.backwardAt[n] as number));
    // Both wide values are made once more, and what is summed of them, on top of what is held just before.
    expect((line[first] as number) - (line[first - 1] as number)).toBeGreaterThanOrEqual(804);
    expect(peak).toBe(Math.max(...line));
    expect(peak).toBeLessThan(aliveOf(m).peak);
  });

  it("count what the second run needs for a moment only", () => {
    const g = new Sketch("wide");
    let x = g.leaf(0, "input", "x", [1]);
    const list = g.scope(0, "layers");
    for (let i = 0; i < 2; i++) {
      const s = g.scope(list, String(i));
      const wide = g.op(s, "add", [g.op(s, "exp", [x], [100])], [1000]);
      x = g.op(s, "sum", [wide], [1]);
    }
    g.op(0, "mean", [x], []);
    const m = modelOf(g.trace(1));
    const layer = (m.childScopes[1] as number[])[1] as number;
    const { line } = whatIf(m, [[layer]]);
    const first = Math.min(...(m.childNodes[layer] as number[]).map((n) => m.backwardAt[n] as number));
    // 400 bytes that are kept, 4000 that were gone long before in the first run, and their sum.
    expect(line[first]).toBe((line[first - 1] as number) + 400 + 4000 + 4);
  });

  it("change nothing where no region is chosen", () => {
    expect([...whatIf(model, []).line]).toEqual([...aliveOf(model).total]);
  });

  it("are tried at repeated blocks, and the best cut is the one with the lowest peak", () => {
    const tried = cuts(model).map((cut) => ({ label: cut.label, peak: whatIf(model, cut.regions).peak }));
    expect(tried.length).toBeGreaterThan(2);
    const best = bestWhatIf(model);
    expect(best?.result.peak).toBe(Math.min(...tried.map((t) => t.peak)));
    expect(best?.result.extra).toBeGreaterThan(0);
    expect(best?.result.extra).toBeLessThan(1);
  });
});

describe("the map", () => {
  it("gives every size its area, inside the frame, without overlap", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 40 }), (sizes) => {
        const tiles = treemap(sizes, 0, 0, 300, 200);
        const all = sizes.reduce((a, b) => a + b, 0);
        expect(tiles).toHaveLength(sizes.length);
        for (const t of tiles) {
          expect(t.width * t.height).toBeCloseTo((60_000 * (sizes[t.index] as number)) / all, 4);
          expect(t.x).toBeGreaterThanOrEqual(-1e-6);
          expect(t.x + t.width).toBeLessThanOrEqual(300 + 1e-6);
          expect(t.y + t.height).toBeLessThanOrEqual(200 + 1e-6);
        }
        for (const [i, a] of tiles.entries()) {
          for (const b of tiles.slice(i + 1)) {
            const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
            const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
            expect(Math.min(wide, high)).toBeLessThan(1e-6);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it("leaves out what has no size", () => {
    expect(treemap([0, 5, 0], 0, 0, 10, 10).map((t) => t.index)).toEqual([1]);
  });

  it("says when a buffer lives, to the end where nothing frees it", () => {
    const [from, to] = lifeOf(model, 0);
    expect(from).toBe(0);
    expect(to).toBe(model.events - 1);
  });
});
