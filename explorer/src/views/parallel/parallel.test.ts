import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Sketch } from "../../fixtures/sketch";
import { transformer } from "../../fixtures/transformer";
import { modelOf } from "../../trace/model";
import { PHASES } from "../../trace/types";
import { levelWidths } from "./charts";
import { spansOf } from "./gantt";
import { criticalByKind, parallelLives, partsOf, recordedLives, simulatedLives } from "./lives";
import { simulate, speedups } from "./simulate";
import { criticalPath, tasksOf, workOf, type Tasks } from "./tasks";

/** Random tasks that wait for some of those before them. */
const tasksGiven = fc
  .array(fc.record({ dur: fc.integer({ min: 1, max: 20 }), before: fc.array(fc.nat(), { maxLength: 3 }) }), { minLength: 1, maxLength: 40 })
  .map((rows): Tasks => {
    const lists = rows.map((row, k) => (k === 0 ? [] : [...new Set(row.before.map((b) => b % k))]));
    const start = new Int32Array(rows.length + 1);
    lists.forEach((list, k) => (start[k + 1] = (start[k] as number) + list.length));
    return { count: rows.length, dur: Float64Array.from(rows, (row) => row.dur), start, before: Int32Array.from(lists.flat()) };
  });

const beforeOf = (tasks: Tasks, k: number) => [...tasks.before.subarray(tasks.start[k], tasks.start[k + 1])];

/** By its definition: the longest chain of durations. */
function longestChain(tasks: Tasks): number {
  const end: number[] = [];
  for (let k = 0; k < tasks.count; k++) end.push((tasks.dur[k] as number) + Math.max(0, ...beforeOf(tasks, k).map((b) => end[b] as number)));
  return Math.max(...end);
}

describe("the critical path", () => {
  it("is the longest chain, and its tasks add up to it", () => {
    fc.assert(
      fc.property(tasksGiven, (tasks) => {
        const path = criticalPath(tasks);
        expect(path.micros).toBe(longestChain(tasks));
        expect(path.tasks.reduce((sum, k) => sum + (tasks.dur[k] as number), 0)).toBe(path.micros);
        for (let i = 1; i < path.tasks.length; i++) expect(beforeOf(tasks, path.tasks[i] as number)).toContain(path.tasks[i - 1]);
      }),
    );
  });

  it("puts each task on a level above all that it waits for", () => {
    fc.assert(
      fc.property(tasksGiven, (tasks) => {
        const { level } = criticalPath(tasks);
        for (let k = 0; k < tasks.count; k++) expect(level[k]).toBe(Math.max(-1, ...beforeOf(tasks, k).map((b) => level[b] as number)) + 1);
        expect(levelWidths(level).reduce((a, b) => a + b, 0)).toBe(tasks.count);
      }),
    );
  });
});

describe("list scheduling", () => {
  it("keeps the order, never uses a worker twice, and stays within Graham's bounds", () => {
    fc.assert(
      fc.property(tasksGiven, fc.integer({ min: 1, max: 6 }), (tasks, workers) => {
        const { start, worker, micros } = simulate(tasks, workers);
        const end = (k: number) => (start[k] as number) + (tasks.dur[k] as number);
        for (let k = 0; k < tasks.count; k++) {
          expect(worker[k]).toBeGreaterThanOrEqual(0);
          expect(worker[k]).toBeLessThan(workers);
          for (const b of beforeOf(tasks, k)) expect(start[k]).toBeGreaterThanOrEqual(end(b));
          for (let j = 0; j < k; j++) if (worker[j] === worker[k]) expect(end(j) <= (start[k] as number) || end(k) <= (start[j] as number)).toBe(true);
        }
        const [work, path] = [workOf(tasks), longestChain(tasks)];
        expect(micros).toBeGreaterThanOrEqual(Math.max(path, work / workers) - 1e-9);
        expect(micros).toBeLessThanOrEqual(work / workers + path + 1e-9);
      }),
    );
  });

  it("takes exactly the work with one worker", () => {
    fc.assert(
      fc.property(tasksGiven, (tasks) => {
        expect(simulate(tasks, 1).micros).toBe(workOf(tasks));
      }),
    );
  });

  it("never claims more than the bound", () => {
    const tasks = tasksOf(modelOf(transformer({ blocks: 2, heads: 4, broken: -1, extra: 3 })));
    for (const row of speedups(tasks, criticalPath(tasks).micros, 1, 8)) expect(row.speedup).toBeLessThanOrEqual(row.bound + 1e-9);
  });
});

describe("the recorded run as tasks", () => {
  const model = modelOf(transformer({ blocks: 2, heads: 2, broken: -1, extra: 3 }));
  const tasks = tasksOf(model);
  const path = criticalPath(tasks);

  it("waits for operands going forward, for consumers going back", () => {
    const root = model.trace.meta.roots[0] as number;
    const [operand] = [model.src[model.operands.edge[model.operands.start[root] as number] as number] as number];
    expect(beforeOf(tasks, model.forwardAt[root] as number)).toContain(model.forwardAt[operand]);
    expect(beforeOf(tasks, model.backwardAt[operand] as number)).toContain(model.backwardAt[root]);
    expect(beforeOf(tasks, model.backwardAt[root] as number)).toEqual([model.forwardAt[root]]);
  });

  it("has lives whose parts follow each other", () => {
    for (const lives of [recordedLives(model, tasks, path), simulatedLives(model, tasks, path, simulate(tasks, 3), 3)]) {
      for (let k = 0; k < lives.count; k++) {
        expect(lives.ready[k]).toBeLessThanOrEqual((lives.start[k] as number) + 1e-6);
        expect(lives.start[k]).toBeLessThanOrEqual(lives.end[k] as number);
      }
    }
    const rows = criticalByKind(model, tasks, path);
    expect(rows.reduce((all, row) => all + row.micros, 0)).toBeCloseTo(path.micros, 3);
    expect(rows.reduce((all, row) => all + row.count, 0)).toBe(path.tasks.length);
  });

  it("has a critical path that no worker's queue is part of", () => {
    // Two chains from x, one long, one short; a worker that does both one after the other waits for neither.
    const g = new Sketch("two");
    const x = g.leaf(0, "input", "x", [4]);
    let long = x;
    for (let i = 0; i < 8; i++) long = g.op(0, "exp", [long], [4]);
    let short = x;
    for (let i = 0; i < 5; i++) short = g.op(0, "sqrt", [short], [4]);
    g.op(0, "add", [long, short], [4]);
    const two = modelOf({ ...g.trace(1), events: { ...g.trace(1).events, dur: g.trace(1).events.dur.map(() => 10) } });
    const done = tasksOf(two);
    const critical = criticalPath(done);
    // Eight and the sum, the way back the same: of fourteen steps each way nine.
    expect(critical.tasks.length).toBe(18);
    expect(done.count).toBe(28);
    const nodes = Array.from({ length: 14 }, (_, i) => i + 1);
    const times = nodes.map((_, i) => 10 * i);
    const lives = parallelLives(two, { origin: "scheduler", workers: 1, node: nodes, worker: nodes.map(() => 0), ready: times, start: times, end: times.map((t) => t + 10), done: times.map((t) => t + 10) }, critical);
    expect(nodes.filter((_, row) => lives.critical[row] === 1)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 14]);
    expect(criticalByKind(two, done, critical).map(({ op, count }) => [op, count])).toEqual([
      ["exp", 8],
      ["exp, backward", 8],
      ["add", 1],
      ["add, backward", 1],
    ]);
  });

  it("has updates wait for the gradients that they are made by", () => {
    const g = new Sketch("step");
    const w = g.leaf(0, "param", "w", [4]);
    const y = g.op(0, "exp", [w], [4]);
    g.op(0, "mul", [y, w], [4]);
    const trace = g.trace(1);
    const { events } = trace;
    const stepped = modelOf({ ...trace, events: { phase: [...events.phase, PHASES.indexOf("optimizer")], node: [...events.node, w], t0: [...events.t0, 99], dur: [...events.dur, 1], thread: [...events.thread, 0] } });
    expect(beforeOf(tasksOf(stepped), stepped.events - 1).sort()).toEqual([stepped.backwardAt[2], stepped.backwardAt[1]].sort());
  });

  it("shows kernels that compiled code ran, by the nodes they compute and under their own names", () => {
    const kernel = (name: string, phase: "forward" | "backward", nodes: number[], gradients: number[]) => ({ name, kind: "loop", phase, nodes, gradients, micros: null, bytes: 0, flops: 0, code: "" });
    const list = [kernel("exp+sum", "forward", [3, 4], []), kernel("gemm", "backward", [], [2]), kernel("pack", "forward", [], [])];
    const compiled = { ...model, trace: { ...model.trace, kernels: { target: "", plan: { kernel: [0, 1, 2], text: [], micros: [] }, list, sources: {} } } };
    // A step in three ranges on two workers, the second of which holds it up; then one on each of two others.
    const lives = parallelLives(compiled, {
      origin: "native",
      workers: 2,
      node: [-1, -1, -1, -1, -1],
      kernel: [0, 0, 0, 2, 1],
      worker: [0, 1, 0, 0, 1],
      ready: [0, 0, 0, 9, 11],
      start: [1, 1, 4, 10, 12],
      end: [4, 9, 7, 11, 15],
      done: [9, 9, 9, 11, 15],
    }, criticalPath(tasksOf(compiled)));
    expect([...lives.node]).toEqual([3, 3, 3, -1, 2]);
    expect([...lives.backward]).toEqual([0, 0, 0, 0, 1]);
    expect([0, 3, 4].map(lives.label)).toEqual(["exp+sum", "pack", "gemm"]);
    expect(spansOf(lives, [2, 0, 1], 0)).toEqual([
      { worker: 0, ready: 0, start: 1, end: 7, done: 9 },
      { worker: 1, ready: 0, start: 1, end: 9, done: 9 },
    ]);
    expect(partsOf(lives, [0, 1, 2, 4])).toEqual([
      { label: "exp+sum", worker: 0, ranges: 2, waits: 1, runs: 6, handsOn: 2 },
      { label: "exp+sum", worker: 1, ranges: 1, waits: 1, runs: 8, handsOn: 0 },
      { label: "gemm", worker: 1, ranges: 1, waits: 1, runs: 3, handsOn: 0 },
    ]);
    // What is between two rows of a worker is waited only once.
    expect(spansOf(lives, [0, 3], 2)).toEqual([
      { worker: 0, ready: 0, start: 1, end: 4, done: 9 },
      { worker: 0, ready: 9, start: 10, end: 11, done: 11 },
    ]);
    expect(spansOf(lives, [0, 3], 6)).toEqual([{ worker: 0, ready: 0, start: 1, end: 11, done: 11 }]);
  });
});

describe("with enough workers", () => {
  it("a schedule is as long as the critical path", () => {
    fc.assert(
      fc.property(tasksGiven, (tasks) => {
        expect(simulate(tasks, tasks.count).micros).toBe(longestChain(tasks));
      }),
    );
  });
});
