import { expect, test } from "vitest";
import { learner } from "./fixtures/learner";
import { pageHost } from "./hosts/host";
import { readHash, writeHash } from "./location";
import { createStore } from "./state";
import { modelOf } from "./trace/model";

const store = () => createStore(modelOf(learner), pageHost, () => null);

test("what the address says is what its sender saw", () => {
  const seen = store();
  readHash(seen, "#tab=tape&t=3&sel=n4");
  expect([seen.tab.value, seen.cursor.value, seen.selection.value]).toEqual(["tape", 3, { kind: "node", row: 4 }]);
  const again = store();
  readHash(again, writeHash(seen));
  expect([again.tab.value, again.cursor.value, again.selection.value]).toEqual(["tape", 3, { kind: "node", row: 4 }]);
});

test("what the address leaves out, or says wrongly, stays", () => {
  const seen = store();
  readHash(seen, "#tab=tape&t=3");
  readHash(seen, "#tab=nothing&t=-1&sel=n99&theme=blue");
  expect([seen.tab.value, seen.cursor.value, seen.selection.value, seen.theme.value]).toEqual(["tape", 3, null, "light"]);
});

test("a page around the explorer can choose its theme", () => {
  const seen = store();
  readHash(seen, "#theme=dark");
  expect([seen.theme.value, writeHash(seen)]).toEqual(["dark", ""]);
});
