/** The page's own engine beside Wengert: the same experiments, the same numbers (`scripts/playbook.py`). */
import { describe, expect, it } from "vitest";
import cases from "../fixtures/play_runs.json";
import type { Options } from "../views/play/messages";
import { num } from "../trace/decode";
import type { Num } from "../trace/types";
import { History } from "./history";
import { Session, runOf, type Playbook } from "./local";
import playbook from "./play.json";

const book = playbook as unknown as Playbook;

interface Case {
  readonly experiment: string;
  readonly options: Options;
  readonly series: number[][];
  readonly scene: unknown;
  readonly shown: unknown;
  readonly pictures: Record<string, number[]>;
}

function begun(name: string, options: Options) {
  const experiment = book.experiments.find((e) => e.name === name);
  if (experiment === undefined) throw new Error(name);
  return runOf(book, experiment, options);
}

/** Numbers within a share of each other, all else alike, through and through. */
function alike(a: unknown, b: unknown, share: number, at = ""): void {
  const numeric = (v: unknown) => typeof v === "number" || v === "nan" || v === "inf" || v === "-inf";
  if (numeric(a) && numeric(b)) {
    const [x, y] = [num(a as Num), num(b as Num)];
    if (Object.is(x, y) || Math.abs(x - y) <= share * Math.max(1, Math.abs(y))) return;
    expect.unreachable(`${at}: ${x}, Wengert says ${y}`);
  }
  if (typeof b === "object" && b !== null) {
    expect(Object.keys(a as object).length, at).toBeGreaterThanOrEqual(Object.keys(b).length);
    for (const [key, value] of Object.entries(b)) alike((a as Record<string, unknown>)[key], value, share, `${at}.${key}`);
    return;
  }
  expect(a, at).toEqual(b);
}

describe.each(cases as unknown as Case[])("$experiment $options", ({ experiment, options, series, scene, shown, pictures }) => {
  // Single precision, and sums in another order.
  const share = experiment === "line" ? 1e-9 : 2e-4;

  it("gives Wengert's numbers, step by step", () => {
    const run = begun(experiment, options);
    const found = [run.measure()];
    for (let k = 1; k < series.length; k++) {
      run.step();
      found.push(run.measure());
    }
    alike(found, series, share, "series");
    alike(run.scene().values, scene, 1e-3, "scene");
    alike(run.shown().values, shown, Math.max(share, 2e-3), "shown");
    for (const [name, codes] of Object.entries(pictures)) {
      const all = run.shown().arrays[name] as Uint8Array;
      const taken = codes.map((_, i) => all[97 * i] as number);
      // A colour is one of 255.
      taken.forEach((v, i) => expect(Math.abs(v - (codes[i] as number)), name).toBeLessThanOrEqual(1));
    }
  });
});

describe("history", () => {
  it("goes back to any step, and on from there as if it had never left", () => {
    const history = new History(begun("separate", { layers: 1, points: 40 }));
    for (let k = 0; k < 30; k++) history.advance();
    const first = history.series.map((values) => [...values]);
    const end = history.run.save();
    history.seek(7);
    expect(history.run.measure()).toEqual(first.map((values) => values[7]));
    history.seek(30);
    expect(history.run.save()).toEqual(end);
    history.seek(11);
    history.set("rate", 1.5);
    for (let k = 0; k < 5; k++) history.advance();
    expect(history.last).toBe(16);
    const changed = history.run.measure();
    history.seek(3);
    history.seek(16);
    expect(history.run.measure()).toEqual(changed);
  });

  it("keeps what was set by hand", () => {
    const history = new History(begun("line", {}));
    history.advance();
    history.edit(0, 0, 2.5);
    expect(history.series[1]?.[1]).toBe(2.5);
    history.advance();
    const after = history.run.measure();
    history.seek(0);
    history.seek(2);
    expect(history.run.measure()).toEqual(after);
    expect(() => history.edit(5, 0, 1)).toThrow("no such number");
  });

  it("says where a run has diverged", () => {
    const history = new History(begun("line", { rate: 2 }));
    for (let k = 0; k < 30; k++) history.advance();
    const losses = history.series[0] as number[];
    expect(history.diverged).toBe(losses.findIndex((loss) => !(loss <= 1e4 * (losses[0] as number))));
    history.seek(0);
    history.set("rate", 0.01);
    expect(history.diverged).toBeNull();
  });
});

describe("the session", () => {
  it("answers as the protocol says, and refuses what is not allowed", () => {
    const told: { type: string; [key: string]: unknown }[] = [];
    const session = new Session(book, (message) => told.push(message));
    expect(told.map(({ type }) => type)).toEqual(["welcome", "scene", "frame", "trace"]);
    session.receive({ type: "step", count: 3 });
    expect(told.at(-2)).toMatchObject({ type: "frame", step: 3, last: 3, playing: false });
    session.receive({ type: "set", name: "rate", value: 99 });
    expect(told.at(-1)).toMatchObject({ type: "error" });
    session.receive({ type: "open", experiment: "regress", options: { "use x": false, "use y": false } });
    expect(told.at(-1)).toEqual({ type: "error", text: "the network needs at least one feature" });
    session.receive({ type: "open", experiment: "regress", options: { "use sin x": true } });
    expect(told.at(-1)).toMatchObject({ type: "frame", run: 2, step: 0 });
    session.receive({ type: "edit", parameter: 0, index: 1, value: 0.5 });
    session.receive({ type: "state" });
    expect((told.at(-1) as unknown as { parameters: number[][] }).parameters[0]?.[1]).toBe(0.5);
  });
});
