import { describe, expect, it } from "vitest";
import { transformer } from "../../fixtures/transformer";
import { modelOf } from "../../trace/model";
import { around, neighbour, runLabel, treeRows, type TreeState } from "./tree";

const model = modelOf(transformer({ blocks: 6, heads: 4, broken: 3, extra: 2 }));
const name = (label: string, parent = -1) => {
  const { scopes, strings } = model.trace;
  return scopes.name.findIndex((row, s) => strings[row] === label && (parent < 0 || scopes.parent[s] === parent));
};
const blocks = name("blocks");
const third = name("3", blocks);
const born = model.trace.findings[0]?.node as number;

const shut: TreeState = { open: new Set(), unrolled: new Set(), marked: [], apart: new Set() };
const labels = (state: TreeState) => treeRows(model, state).map((row) => `${"  ".repeat(row.depth)}${row.label}${row.kind !== "node" && row.times > 1 ? ` x${row.times}` : ""}`);

describe("the module tree", () => {
  it("shows the parts of the run, with a count for a list of like ones", () => {
    expect(labels(shut)).toEqual(["gpt", "  embed", "  blocks x6", "  ln_f", "  head", "  loss"]);
  });

  it("folds like blocks in the same state into runs", () => {
    const rows = labels({ ...shut, open: new Set([blocks]) });
    // Gradients are lost in block 3 and in all before it.
    expect(rows.slice(2, 5)).toEqual(["  blocks x6", "    0 – 3 x4", "    4 – 5 x2"]);
  });

  it("keeps apart what is looked at", () => {
    const apart = around(model, [born]);
    expect(apart.has(third)).toBe(true);
    const rows = labels({ ...shut, open: new Set([blocks]), apart });
    expect(rows.slice(3, 6)).toEqual(["    0 – 2 x3", "    3", "    4 – 5 x2"]);
  });

  it("lists the members of a run that is unrolled, and marked nodes below their module", () => {
    const open = new Set([blocks, third, name("attn", third), name("q_norm", name("attn", third))]);
    const rows = labels({ open, unrolled: new Set([name("4", blocks)]), marked: [{ node: born, label: "sqrt" }], apart: around(model, [born]) });
    expect(rows).toContain("          sqrt");
    expect(rows).toContain("      4");
    expect(rows).toContain("      5");
  });

  it("names runs by what their members share", () => {
    expect(runLabel(["0", "1", "2"], true)).toBe("0 – 2");
    expect(runLabel(["head 0", "head 1"], true)).toBe("head");
    expect(runLabel(["head 0", "head 1"], false)).toBe("head 0 – 1");
    expect(runLabel(["up", "down"], true)).toBe("up, down");
  });

  it("is walked with the arrow keys", () => {
    const rows = treeRows(model, { ...shut, open: new Set([blocks]) });
    const at = (label: string) => rows.findIndex((row) => row.label === label);
    expect(neighbour(rows, at("blocks"), "ArrowRight")).toBe(at("blocks") + 1);
    expect(neighbour(rows, at("4 – 5"), "ArrowLeft")).toBe(at("blocks"));
    expect(neighbour(rows, 0, "ArrowUp")).toBe(0);
    expect(neighbour(rows, 0, "End")).toBe(rows.length - 1);
    expect(neighbour(rows, at("ln_f"), "ArrowRight")).toBe(at("ln_f"));
  });
});
