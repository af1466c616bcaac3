/** Graphs to lay out in tests: random ones, scalar networks written number by number, transformer blocks head by head. */
import type { LayoutGraph } from "../src/layout/types";

/** A small generator of reproducible numbers in [0, 1) (linear congruential, Numerical Recipes' constants). */
export function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

/** Collects named nodes and their operands. */
class Sketch {
  private readonly index = new Map<string, number>();
  private readonly edges: { from: number; to: number }[] = [];

  op(name: string, ...operands: string[]): string {
    const to = this.index.size;
    this.index.set(name, to);
    for (const operand of operands) this.edges.push({ from: this.index.get(operand)!, to });
    return name;
  }

  graph(size = 56): LayoutGraph {
    return { nodes: Array.from(this.index, () => ({ width: size, height: size })), edges: this.edges };
  }
}

/** (w * x + b - t) ** 2 */
export function learner(): LayoutGraph {
  const s = new Sketch();
  for (const leaf of ["x", "w", "b", "t"]) s.op(leaf);
  s.op("L", s.op("square", s.op("sub", s.op("add", s.op("mul", "w", "x"), "b"), "t")));
  return s.graph();
}

/** Every node takes 1 to `most` operands from the `window` nodes before it. */
export function randomDag(count: number, most: number, window: number, seed: number): LayoutGraph {
  const next = numbers(seed);
  const s = new Sketch();
  s.op("0");
  for (let i = 1; i < count; i++) {
    const operands = new Set<string>();
    for (let k = Math.floor(next() * most); k >= 0; k--) operands.add(String(Math.max(0, i - 1 - Math.floor(next() * window))));
    s.op(String(i), ...operands);
  }
  return s.graph();
}

/** A network of single numbers: every weight, product and sum is a node. */
export function scalarNetwork(sizes: readonly number[]): LayoutGraph {
  const s = new Sketch();
  let layer = Array.from({ length: sizes[0]! }, (_, i) => s.op(`x${i}`));
  sizes.slice(1).forEach((size, l) => {
    layer = Array.from({ length: size }, (_, j) => {
      let sum = "";
      layer.forEach((x, i) => {
        const product = s.op(`p${l}.${j}.${i}`, s.op(`w${l}.${j}.${i}`), x);
        sum = sum === "" ? product : s.op(`s${l}.${j}.${i}`, sum, product);
      });
      return s.op(`t${l}.${j}`, s.op(`a${l}.${j}`, sum, s.op(`b${l}.${j}`)));
    });
  });
  return s.graph();
}

export function transformer(blocks: number, heads: number): LayoutGraph {
  const s = new Sketch();
  const matmul = (name: string, x: string) => s.op(name, x, s.op(`${name}.weight`));
  let x = s.op("embedding", s.op("ids"), s.op("table"));
  for (let b = 0; b < blocks; b++) {
    const n = matmul(`${b}.norm1`, x);
    const outs = Array.from({ length: heads }, (_, h) => {
      const at = `${b}.${h}`;
      const [q, k, v] = [matmul(`${at}.q`, n), matmul(`${at}.k`, n), matmul(`${at}.v`, n)];
      const scores = s.op(`${at}.qk`, q, s.op(`${at}.kt`, k));
      return s.op(`${at}.av`, s.op(`${at}.softmax`, s.op(`${at}.scale`, scores)), v);
    });
    const attended = s.op(`${b}.add1`, x, matmul(`${b}.project`, s.op(`${b}.concat`, ...outs)));
    const hidden = s.op(`${b}.bias`, matmul(`${b}.up`, matmul(`${b}.norm2`, attended)), s.op(`${b}.bias.weight`));
    x = s.op(`${b}.add2`, attended, matmul(`${b}.down`, s.op(`${b}.gelu`, hidden)));
  }
  s.op("loss", x);
  return s.graph();
}
