import { expect, it } from "vitest";
import { transformer } from "../../fixtures/transformer";
import { modelOf } from "../../trace/model";
import { chromeTrace, collapsed, flameBoxes, flameOf, flameSvg } from "./exports";
import { busyMicros, recordedLives } from "./lives";
import { criticalPath, tasksOf } from "./tasks";

const model = modelOf(transformer({ blocks: 2, heads: 2, broken: -1, extra: 3 }));
const tasks = tasksOf(model);
const lives = recordedLives(model, tasks, criticalPath(tasks));

it("a Chrome trace has an event for each step, on its worker, at its time", () => {
  const { traceEvents } = chromeTrace(model, lives);
  const steps = traceEvents.filter(({ ph }) => ph === "X");
  expect(steps.length).toBe(lives.count);
  expect(traceEvents.length - steps.length).toBe(lives.workers);
  expect(steps.reduce((sum, { dur }) => sum + (dur ?? 0), 0)).toBeCloseTo(busyMicros(lives), 6);
  expect(steps.every(({ tid, ts }) => tid < lives.workers && ts >= 0)).toBe(true);
  expect(steps.some(({ args }) => String(args.module).startsWith("blocks"))).toBe(true);
  expect(() => JSON.stringify(traceEvents)).not.toThrow();
});

it("a flame graph's parts add up, and its stacks do too", () => {
  const flame = flameOf(model, lives);
  expect(flame.micros).toBeCloseTo(busyMicros(lives), 6);
  const check = (at: typeof flame): void => {
    if (at.inside.length > 0) expect(at.inside.reduce((sum, f) => sum + f.micros, 0)).toBeCloseTo(at.micros, 6);
    at.inside.forEach(check);
  };
  check(flame);
  const lines = collapsed(flame).trim().split("\n");
  expect(lines.every((line) => /^[^;]+(;[^;]+)+ [\d.e-]+$/.test(line))).toBe(true);
  expect(lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0)).toBeCloseTo(flame.micros, 3);
});

it("its boxes stand inside of what they are in", () => {
  const boxes = flameBoxes(flameOf(model, lives));
  for (const box of boxes) {
    expect(box.x + box.width).toBeLessThanOrEqual(1 + 1e-9);
    for (const inner of boxes.filter((b) => box.flame.inside.includes(b.flame))) {
      expect(inner.depth).toBe(box.depth + 1);
      expect(inner.x).toBeGreaterThanOrEqual(box.x - 1e-9);
      expect(inner.x + inner.width).toBeLessThanOrEqual(box.x + box.width + 1e-9);
    }
  }
  expect(flameSvg(flameOf(model, lives))).toMatch(/^<svg .*<\/svg>$/);
});
