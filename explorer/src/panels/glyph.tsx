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
      <text class={kind === "op" ? "" : "wg-math"} text-anchor="middle" y={large ? 1.6 : 2.6} font-size={large ? 4.6 : 8.2}>
        {symbol}
      </text>
    </svg>
  );
}

/** What gradients do, going from right to left. */
const PATHS: Record<Pattern, string> = {
  distribute: "M21 12H14C9 12 9 6 3 6M14 12C9 12 9 18 3 18",
  swap: "M21 12H17M17 12C12 12 12 6 4 6M17 12C12 12 12 18 4 18M9 6C12 6 8 18 12 18",
  route: "M21 12H15C10 12 9 7 3 7M9.5 17H3",
  accumulate: "M3 12H10C15 12 15 6 21 6M10 12C15 12 15 18 21 18",
  scale: "M21 12H15M9 12H3M15 7.5V16.5L9 14V10Z",
  custom: "M21 12H16M8 12H3M8 8H16V16H8Z",
  none: "M21 12H15M15 8V16",
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
      {ARROWS[pattern]?.map((at) => <path key={at} d={`M${at}l3 -2.6M${at}l3 2.6`} />)}
    </svg>
  );
}

const ARROWS: { readonly [pattern in Pattern]?: readonly string[] } = {
  distribute: ["3 6", "3 18"],
  swap: ["4 6", "4 18"],
  route: ["3 7"],
  accumulate: ["3 12"],
  scale: ["3 12"],
  custom: ["3 12"],
};
