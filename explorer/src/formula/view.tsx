/** Formulas on the page: variables in maths italics, the live part lit, every part a way to its node. */
import type { HTMLAttributes, JSX } from "preact";
import { plain, type Part } from "./expression";

export interface FormulaProps {
  readonly parts: readonly Part[];
  /** The node whose part is lit; -1 for none. */
  readonly lit?: number;
  readonly onSelect?: (node: number) => void;
  readonly onHover?: (node: number | null) => void;
}

export function Formula(props: FormulaProps) {
  return (
    <span class="wg-formula" role="math" aria-label={plain(props.parts)}>
      {render(props.parts, props)}
    </span>
  );
}

/** A variable with its index: v₁. */
export function Name({ name, index }: { name: string; index: string }) {
  return (
    <var class="wg-math">
      {name}
      {index !== "" && <sub>{index}</sub>}
    </var>
  );
}

function render(parts: readonly Part[], props: FormulaProps): JSX.Element[] {
  return parts.map((part, i) => {
    switch (part.kind) {
      case "text":
        // Roots hang low in fonts for mathematics, out of the line.
        return <span key={i} class={/[√∛]/.test(part.text) ? "wg-root" : undefined}>{part.text}</span>;
      case "raised":
        return <sup key={i}>{render(part.parts, props)}</sup>;
      case "lowered":
        return <sub key={i}>{render(part.parts, props)}</sub>;
      case "number":
        return (
          <span key={i} class={lit(part.node, props)} {...handlers(part.node, props)}>
            {part.text}
          </span>
        );
      case "name":
        return (
          <span key={i} class={lit(part.node, props)} {...handlers(part.node, props)}>
            <Name name={part.name} index={part.index} />
          </span>
        );
      case "group":
        return (
          <span key={i} class={lit(part.node, props)} {...handlers(part.node, props)}>
            {render(part.parts, props)}
          </span>
        );
    }
  });
}

const lit = (node: number, props: FormulaProps): string => (props.lit === node ? "wg-part wg-lit" : "wg-part");

function handlers(node: number, { onSelect, onHover }: FormulaProps): HTMLAttributes<HTMLSpanElement> {
  if (onSelect === undefined) return {};
  return {
    onClick: (event) => {
      event.stopPropagation();
      onSelect(node);
    },
    onMouseOver: (event) => {
      event.stopPropagation();
      onHover?.(node);
    },
    onMouseOut: () => onHover?.(null),
  };
}
