import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LESSON } from "../../draw/looks";
import { pictureOf } from "../../draw/picture";
import { Sketch } from "../../fixtures/sketch";
import { transformer } from "../../fixtures/transformer";
import { modelOf, type Model } from "../../trace/model";
import { scopeFacts } from "../../fold/visible";
import { Reasons } from "./held";
import { parallelLives, recordedLives, simulatedLives, type Lives } from "./lives";
import { advanced, momentsOf, playedMicros, stepFrom, upTo } from "./moments";
import { momentOf, passesOf } from "./passes";
import { simulate } from "./simulate";
import { edgesAt, nodesAt, pulsesAt, stageOf } from "./stage";
import { criticalPath, tasksOf } from "./tasks";
import { toldAt, whatHeld, whyWaited } from "./telling";

/** Two chains from x that meet: exp and sqrt, of three and two steps. Each step takes 10, forward and back. */
function diamond(): Model {
  const g = new Sketch("two");
  const x = g.leaf(0, "input", "x", [4]);
  let long = x;
  for (let i = 0; i < 3; i++) long = g.op(0, "exp", [long], [4]);
  let short = x;
  for (let i = 0; i < 2; i++) short = g.op(0, "sqrt", [short], [4]);
  g.op(0, "add", [long, short], [4]);
  const trace = g.trace(1);
  return modelOf({ ...trace, events: { ...trace.events, dur: trace.events.dur.map(() => 10) } });
}

function simulated(model: Model, workers: number): Lives {
  const tasks = tasksOf(model);
  return simulatedLives(model, tasks, criticalPath(tasks), simulate(tasks, workers), workers);
}

describe("the graph on the clock", () => {
  const model = diamond();
  const lives = simulated(model, 2);
  const passes = passesOf(model, lives);
  const at = (node: number, now: number) => momentOf(model, passes, node, now);

  it("counts missing parents down, runs, hands on", () => {
    // x, exp exp exp, sqrt sqrt, add: rows 0 to 6.
    expect(at(6, 5)).toMatchObject({ stage: "waits", missing: 2, back: false });
    expect(at(6, 25)).toMatchObject({ stage: "waits", missing: 1 });
    expect(at(6, 30)).toMatchObject({ stage: "runs" });
    expect(at(1, 5).stage).toBe("runs");
    expect(at(4, 5).stage).toBe("runs");
    expect(at(1, 5).worker).not.toBe(at(4, 5).worker);
    expect(at(1, 10).stage).toBe("hands on");
    expect(at(1, 39).stage).toBe("done");
  });

  it("goes back the same way", () => {
    expect(passes.turn).toBe(40);
    expect(at(6, 45)).toMatchObject({ stage: "runs", back: true });
    expect(at(1, 45)).toMatchObject({ stage: "waits", back: true, missing: 1 });
    // A leaf's gradient is there when all that it is the sum of is.
    expect(at(0, 55)).toMatchObject({ stage: "waits", back: true, missing: 2 });
    expect(at(0, 75)).toMatchObject({ back: true, missing: 1 });
    expect(at(0, 80)).toMatchObject({ stage: "done", back: true });
    expect(lives.micros).toBe(80);
  });

  it("is drawn: counts, workers' colours, what is on its way", () => {
    const picture = pictureOf(model, { open: new Set(scopeFacts(model).order), metrics: LESSON });
    const stage = stageOf(model, picture, passes);
    const look = (node: number, now: number) => nodesAt(stage, now, null, null)[picture.graph.items.findIndex((item) => item.node === node)];
    expect(look(6, 5)?.count).toBe("2");
    expect([look(1, 5)?.lit, look(4, 5)?.lit].sort()).toEqual(["worker0", "worker1"]);
    expect(look(1, 35)?.lit).toBeUndefined();
    expect(look(1, 35)?.rim).toMatch(/^worker/);
    const now = 10 + passes.way / 2;
    expect(pulsesAt(stage, now).map(({ back, share }) => [back, share.toFixed(6)])).toEqual([[false, "0.500000"], [false, "0.500000"]]);
    expect(pulsesAt(stage, 50 + passes.way / 2).every(({ back }) => back)).toBe(true);
    expect(edgesAt(stage, 5).filter((edge) => edge.value?.dim === false).length).toBe(2);
    expect(edgesAt(stage, 80).every((edge) => edge.value?.dim === false)).toBe(true);
  });

  it("counts a closed box's steps, and lights it while one of them runs", () => {
    const large = modelOf(transformer({ blocks: 2, heads: 2, broken: -1, extra: 3 }));
    const its = simulated(large, 3);
    const picture = pictureOf(large, { open: new Set([0]), metrics: LESSON });
    const stage = stageOf(large, picture, passesOf(large, its));
    const boxes = (now: number) => nodesAt(stage, now, null, null).filter((look) => look.share !== undefined);
    expect(boxes(-1).every(({ share }) => share === 0)).toBe(true);
    expect(boxes(its.micros).every(({ share }) => share === 1)).toBe(true);
    expect(boxes(its.micros / 4).some(({ lit }) => lit !== undefined)).toBe(true);
  });

  it("plays kernels: all of their nodes at once", () => {
    const kernel = { name: "k", kind: "loop", phase: "forward" as const, nodes: [1, 2, 3], gradients: [], micros: 10, bytes: 0, flops: 0, code: "k" };
    const rest = { ...kernel, name: "r", nodes: [4, 5] };
    const compiled = modelOf({ ...model.trace, kernels: { target: "", plan: { kernel: [0, 1], text: ["k", "r"], micros: [10, 10] }, list: [kernel, rest], sources: {} } });
    const path = criticalPath(tasksOf(compiled));
    const run = { origin: "native" as const, workers: 2, node: [-1, -1, -1], kernel: [0, 0, 1], worker: [0, 1, 0], ready: [0, 0, 10], start: [0, 1, 11], end: [9, 10, 20], done: [10, 10, 20] };
    const own = parallelLives(compiled, run, path);
    const its = passesOf(compiled, own);
    expect([1, 2, 3].map((n) => momentOf(compiled, its, n, 5).stage)).toEqual(["runs", "runs", "runs"]);
    expect(momentOf(compiled, its, 5, 5).stage).toBe("waits");
    expect(new Reasons(compiled, own).of(2)).toMatchObject({ cause: "turn", after: 1 });
  });
});

describe("why a step waited", () => {
  const model = diamond();

  it("for an operand, or for its worker", () => {
    const alone = simulated(model, 1);
    const reasons = new Reasons(model, alone);
    const rows = Array.from({ length: alone.count }, (_, k) => reasons.of(k));
    expect(rows.filter(({ cause }) => cause === "worker").length).toBeGreaterThan(0);
    expect(rows.find(({ row }) => row === 3)).toBeDefined();
    const queued = rows.find(({ cause }) => cause === "worker");
    expect(whyWaited(alone, reasons, queued?.row ?? 0)).toContain("w0 was busy with");
    const two = simulated(model, 2);
    expect(whyWaited(two, new Reasons(model, two), model.forwardAt[6] as number)).toMatch(/waited for v3 = exp.*, the last of 2; ran 10 µs on w\d, from 30 µs to 40 µs/);
    expect(toldAt(two, momentsOf(two), 5)).toBe("At 5 µs 2 of 2 workers work: 0 done, 0 ready, 10 wait for others.");
  });

  it("what held up the end accounts for all of it", () => {
    for (const workers of [1, 2, 3]) {
      const lives = simulated(model, workers);
      const held = new Reasons(model, lives).held();
      expect(held.work + held.idle).toBeCloseTo(lives.micros, 9);
      expect(held.queued === 0).toBe(lives.micros === 80);
      expect(whatHeld(lives, held, 80)).toContain(workers === 1 ? "wait for a worker" : "critical path itself");
    }
  });

  it("whatever ran it: work and pauses on the chain are the whole", () => {
    const large = modelOf(transformer({ blocks: 2, heads: 3, broken: -1, extra: 3 }));
    const tasks = tasksOf(large);
    const path = criticalPath(tasks);
    for (const lives of [recordedLives(large, tasks, path), ...[1, 2, 5, 8].map((n) => simulated(large, n))]) {
      const held = new Reasons(large, lives).held();
      expect(held.work + held.idle).toBeCloseTo(lives.micros, 3);
    }
  });
});

describe("the clock of a schedule", () => {
  const lives = simulated(diamond(), 2);
  const moments = momentsOf(lives);

  it("steps from moment to moment, and there and back", () => {
    expect([...moments.at]).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80]);
    expect([...moments.running]).toEqual([2, 2, 1, 1, 1, 2, 2, 1, 0]);
    expect(stepFrom(moments, 0, 1)).toBe(10);
    expect(stepFrom(moments, 15, -1)).toBe(10);
    expect(stepFrom(moments, 10, -1)).toBe(0);
    expect(stepFrom(moments, 0, -1)).toBe(0);
    expect(stepFrom(moments, 80, 1)).toBe(80);
    expect(upTo(moments.ends, 20)).toBe(4);
  });

  it("plays all of it in the time that it says", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), (frames) => {
        let now = 0;
        for (let i = 0; i < frames; i++) now = advanced(moments, now, playedMicros(moments) / frames);
        expect(now).toBeCloseTo(lives.micros, 6);
      }),
    );
  });
});
