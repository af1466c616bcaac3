import { expect, test } from "vitest";
import { learner } from "../../fixtures/learner";
import type { Host } from "../../hosts/host";
import { recompute } from "../../scalar/recompute";
import { createStore, moveLeaf, select } from "../../state";
import { modelOf } from "../../trace/model";
import { playOf } from "./session";

function session() {
  let tell: (message: unknown) => void = () => {};
  const host: Host = {
    kind: "server",
    send() {},
    receive(listener) {
      tell = listener;
      return () => {};
    },
  };
  const store = createStore(modelOf(learner), host, recompute);
  const play = playOf(store);
  const experiment = (name: string, view: string) => ({ name, title: name, aside: "", view, series: [], paces: [1, 2], controls: [] });
  tell({ type: "welcome", protocol: 1, experiments: [experiment("line", "line"), experiment("units", "units"), experiment("mine", "script")] });
  const scene = (run: number, name: string) => tell({ type: "scene", run, experiment: name, options: {}, values: {}, arrays: {} });
  const trace = (run: number, step: number) => tell({ type: "trace", run, step, document: learner });
  return { store, play, scene, trace };
}

test("a new recording takes the place of numbers that were moved away from the old one", () => {
  const { store, play, scene, trace } = session();
  scene(1, "line");
  trace(1, 0);
  moveLeaf(store, 1, 3);
  select(store, { kind: "node", row: 1 });
  expect(store.numbers.value.value(8)).toBe(25);
  trace(1, 1);
  expect(play.recorded.value).toBe(1);
  expect(store.moved.value.size).toBe(0);
  expect(store.numbers.value.value(8)).toBe(4);
  // The graph is the same: what was chosen stays so.
  expect(store.selection.value).toEqual({ kind: "node", row: 1 });
});

test("another experiment's graph is not shown as this one's", () => {
  const { store, play, scene, trace } = session();
  scene(1, "line");
  trace(1, 3);
  // A run of the same experiment begins: its recording comes at once.
  scene(2, "line");
  expect(store.model.value.nodes).toBe(9);
  expect(play.recorded.value).toBeNull();
  trace(2, 0);
  scene(3, "units");
  expect(store.model.value.nodes).toBe(0);
  expect(store.model.value.trace.meta.title).toBe("units: nothing recorded yet");
  // What comes late is of a run that is over.
  trace(2, 5);
  expect(store.model.value.nodes).toBe(0);
  trace(3, 0);
  expect(store.model.value.nodes).toBe(9);
});

test("a script records only when it is asked to: a new run of it has no graph yet", () => {
  const { store, scene, trace } = session();
  scene(1, "mine");
  trace(1, 3);
  expect(store.model.value.nodes).toBe(9);
  scene(2, "mine");
  expect(store.model.value.nodes).toBe(0);
});
