/** Small pictures: kinds of nodes by shape, what happens to gradients by lines. Both say it without colour. */
import type { JSX } from "preact";
import type { NodeKind, Pattern } from "../trace/types";

export function KindGlyph({ kind, size = 14 }: { kind: NodeKind; size?: number }) {
  return (
    <svg class={`wg-glyph is-${kind}`} width={size} height={size} viewBox="-8 -8 16 16" aria-hidden="true">
      {SHAPES[kind]}
    </svg>
  );
}

const HEXAGON = "M0 -7L6.1 -3.5V3.5L0 7L-6.1 3.5V-3.5Z";
const SHAPES: Record<NodeKind, JSX.Element> = {
  input: <circle r="6" />,
  param: <path d={HEXAGON} stroke-linejoin="round" />,
  const: <circle r="6" stroke-dasharray="2.4 1.8" />,
  op: <rect x="-6" y="-6" width="12" height="12" rx="3" />,
  root: (
    <>
      <circle r="6.4" class="wg-ring" />
      <circle r="3.4" class="wg-core" />
    </>
  ),
};

/** The large shape of a panel's head, with the node's own symbol in it. */
export function KindBadge({ kind, symbol }: { kind: NodeKind; symbol: string }) {
  const large = symbol.length > 2;
  return (
    <svg class={`wg-badge is-${kind}`} width="46" height="46" viewBox="-11.5 -11.5 23 23" aria-hidden="true">
      <g transform="scale(1.38)">{SHAPES[kind]}</g>
      <text
        class={kind === "op" ? "" : "wg-math"}
        text-anchor="middle"
        y={large ? 1.6 : 2.6}
        font-size={large ? 4.6 : 8.2}
      >
        {symbol}
      </text>
    </svg>
  );
}

/** What gradients do, going from right to left, as they do in the picture. */
const PATHS: Record<Pattern, string> = {
  distribute: "M21 12H16C10.5 12 11 6.5 4 6.5M16 12C10.5 12 11 17.5 4 17.5M7 3.8L4 6.5L7 9.2M7 14.8L4 17.5L7 20.2",
  swap: "M20 6.5C13 6.5 12 17.5 4 17.5M20 17.5C13 17.5 12 6.5 4 6.5M7 3.8L4 6.5L7 9.2M7 14.8L4 17.5L7 20.2",
  route: "M21 12H16C10.5 12 11 6.5 4 6.5M7 3.8L4 6.5L7 9.2M11 17.5H10M7.5 17.5H6.5",
  accumulate: "M20 6.5C13 6.5 13.5 12 8 12H3.5M20 17.5C13 17.5 13.5 12 8 12M6.5 9.3L3.5 12L6.5 14.7",
  scale: "M21 12H17M7 12H3.5M6 9.5L3.5 12L6 14.5M17 6.5V17.5L8 14.5V9.5Z",
  custom: "M21 12H17M7 12H3.5M6 9.5L3.5 12L6 14.5M8 7H17V17H8Z",
  none: "M21 12H13M13 7V17",
};

export function PatternIcon({ pattern, size = 22 }: { pattern: Pattern; size?: number }) {
  return (
    <svg
      class="wg-pattern"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[pattern]} />
    </svg>
  );
}
