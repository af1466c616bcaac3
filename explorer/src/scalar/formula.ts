/** Operations that are declared by a formula of others: values by its steps, slopes by their chain rule. */
import { num } from "../trace/decode";
import type { Formula, FormulaOperand } from "../trace/types";
import { scalarOp, type Attributes, type ScalarOp } from "./ops";

/** The operation; null where this page does not know one of its parts. */
export function formulaOp(formula: Formula): ScalarOp | null {
  const known = formula.parts.map(([name]) => scalarOp(name));
  if (known.includes(null)) return null;
  const ops = known as ScalarOp[];
  const operandsOf = (step: number): FormulaOperand[] => (formula.parts[step] ?? []).slice(1) as FormulaOperand[];

  const computed = (args: readonly number[], attrs: Attributes) => {
    const found: number[] = [];
    const read = (operand: FormulaOperand): number => {
      if (typeof operand === "string") return Number(attrs[operand]);
      if (typeof operand !== "number") return num(operand[0]);
      return (operand < 0 ? args[-1 - operand] : found[operand]) ?? Number.NaN;
    };
    ops.forEach((op, step) => found.push(op.value(operandsOf(step).map(read), {})));
    return { found, read };
  };

  return {
    value: (args, attrs) => computed(args, attrs).read(formula.result),
    partials: (args, _out, attrs) => {
      const { found, read } = computed(args, attrs);
      const arrived: (number | null)[] = found.map(() => null);
      const slopes: (number | null)[] = args.map(() => null);
      const add = (operand: FormulaOperand, part: number): void => {
        if (typeof operand !== "number") return;
        const [into, at] = operand < 0 ? [slopes, -1 - operand] : [arrived, operand];
        into[at] = (into[at] ?? 0) + part;
      };
      add(formula.result, 1);
      for (let step = ops.length - 1; step >= 0; step--) {
        const here = arrived[step];
        if (here === null || here === undefined) continue;
        const operands = operandsOf(step);
        const partials = (ops[step] as ScalarOp).partials(operands.map(read), found[step] ?? Number.NaN, {});
        operands.forEach((operand, i) => {
          const slope = partials[i] ?? null;
          // Where nothing flows nothing is added, not even 0 times an infinity.
          if (slope !== null) add(operand, here * slope);
        });
      }
      return slopes;
    },
  };
}
