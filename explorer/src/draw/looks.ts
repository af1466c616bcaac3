/** How visible things look: what views decide, and what follows from the recording alone. */
import type { Item, VisibleEdge } from "../fold/visible";
import type { BoxSize } from "../layout/nested";
import { middleCut, nameAndIndex, shownCount, subscript } from "../format";
import { FLAG } from "../trace/types";
import { kindOf, nameOf, symbolOf, text, type Model } from "../trace/model";
import type { FontName } from "./display";
import type { Token } from "./palette";
import type { TextMeasure } from "./text";

export type Shape = "input" | "param" | "const" | "op" | "root" | "scope" | "run" | "port";

export interface NodeLook {
  readonly shape: Shape;
  readonly label: string;
  readonly font: FontName;
  /** Small texts above and below the shape. */
  readonly above?: { readonly text: string; readonly token: Token } | undefined;
  readonly below?: { readonly text: string; readonly token: Token } | undefined;
  /** For open containers: what stands at the right end of the header, and smaller beside the title. */
  readonly aside?: string;
  readonly subtitle?: string;
  /** "x 12" on a folded run. */
  readonly count?: string;
  /** Its number, and below it the gradient's, inside the box: where edges have no room for them. */
  readonly numbers?: { readonly value: string; readonly gradient: string } | undefined;
  /** It holds parameters. */
  readonly params?: boolean;
  /** Not computed yet at the cursor. */
  readonly waiting?: boolean;
  readonly dim?: boolean;
  /** NaN or infinities in it. */
  readonly bad?: boolean;
  readonly selected?: boolean;
  readonly hovered?: boolean;
  /** The light around what happens now. */
  readonly glow?: Token | undefined;
  /** Filled with a colour of its own: somebody works on it now. */
  readonly lit?: Token | undefined;
  /** Its outline in a colour of its own: who has worked on it. */
  readonly rim?: Token | undefined;
  /** The ground of `count`, ink if not given. */
  readonly countToken?: Token | undefined;
  /** It hands its state on to itself, turn by turn: a loop below it. */
  readonly loop?: boolean;
  /** 0 to 1: how much of what it stands for is done. */
  readonly share?: number | undefined;
}

export interface Lane {
  readonly width: number;
  /** Lost to NaN: dashed, red. */
  readonly bad?: boolean;
  readonly dim?: boolean;
  /** The number on it. */
  readonly chip?: string | undefined;
}

export interface EdgeLook {
  /** null: nothing came along yet (or nothing ever does). */
  readonly value: Lane | null;
  readonly gradient: Lane | null;
  /** A wide pale band under both lanes: a path that is talked about. */
  readonly band?: Token | undefined;
  readonly selected?: boolean;
  /** What happens to the value on the way: "→ [24]" where it is copied to fit. */
  readonly mark?: string | undefined;
  /** The same as a sign on the line, where there is no room for words. */
  readonly sign?: string | undefined;
}

/** Sizes of things: large where every number is read, smaller where shapes are surveyed. */
export interface Metrics {
  readonly op: number;
  readonly circle: number;
  readonly hexagon: readonly [number, number];
  readonly root: number;
  readonly scopeHeight: number;
  readonly symbolSize: number;
  readonly labelSize: number;
  readonly captionSize: number;
  readonly chipSize: number;
  /** Distance of the lanes from the middle of their edge. */
  readonly lane: number;
  readonly rankGap: number;
  readonly nodeGap: number;
  readonly edgeGap: number;
  readonly portGap: number;
  readonly padding: number;
  readonly header: number;
  /** The size of numbers that stand inside boxes; those that have it stand on edges where this is left out. */
  readonly inside?: number;
}

export const LESSON: Metrics = {
  op: 56,
  circle: 60,
  hexagon: [60, 68],
  root: 66,
  scopeHeight: 46,
  symbolSize: 28,
  labelSize: 14,
  captionSize: 12.5,
  chipSize: 13,
  lane: 5,
  rankGap: 84,
  nodeGap: 76,
  edgeGap: 30,
  portGap: 20,
  padding: 26,
  header: 26,
};

/** For graphs too large for numbers on their edges: as small as they can be read, value and gradient inside the boxes. */
export const DENSE: Metrics = {
  op: 50,
  circle: 50,
  hexagon: [66, 50],
  root: 50,
  scopeHeight: 46,
  symbolSize: 15,
  labelSize: 12,
  captionSize: 10.5,
  chipSize: 11,
  lane: 2.5,
  rankGap: 13,
  nodeGap: 7,
  edgeGap: 9,
  portGap: 10,
  padding: 12,
  header: 20,
  inside: 12,
};

/** How far below its box the loop of a recurrence reaches. */
export const LOOP = 18;

export function boxSize(look: NodeLook, metrics: Metrics, measure: TextMeasure): BoxSize {
  const small = (width: number, height: number, outline: "circle" | "hexagon"): BoxSize => {
    const inside = fittedLabel(look, width, metrics, measure).label === look.label;
    return { width, height, outline, ...(inside ? {} : { below: Math.ceil(metrics.captionSize * 1.6) }) };
  };
  if (metrics.inside !== undefined && isSingle(look.shape)) return { width: metrics.hexagon[0], height: metrics.op };
  switch (look.shape) {
    case "input":
      return small(metrics.circle, metrics.circle, "circle");
    case "const":
      return small(metrics.circle * 0.75, metrics.circle * 0.75, "circle");
    case "param":
      return small(metrics.hexagon[0], metrics.hexagon[1], "hexagon");
    case "root":
      return small(metrics.root, metrics.root, "circle");
    case "port": {
      const wide = measure(look.label, "ui", metrics.captionSize, false) + metrics.captionSize * 1.6;
      return { width: Math.ceil(Math.max(metrics.captionSize * 2, wide)), height: Math.ceil(metrics.captionSize * 1.9) };
    }
    case "op": {
      const wide = measure(look.label, look.font, labelSize(look, metrics), true) + metrics.labelSize * 1.4;
      return { width: Math.max(metrics.op, Math.ceil(wide)), height: metrics.op };
    }
    default: {
      const wide = measure(look.label, "ui", metrics.labelSize, true) + metrics.labelSize * 2.2;
      const size = { width: Math.max(metrics.scopeHeight * 1.3, Math.ceil(wide)), height: metrics.scopeHeight };
      return look.loop === true ? { ...size, below: LOOP } : size;
    }
  }
}

/** Whether the shape stands for a single node. */
export function isSingle(shape: Shape): boolean {
  return shape !== "scope" && shape !== "run" && shape !== "port";
}

/** The label as large as fits into a shape of this width, down to the size of captions, and then cut short. */
export function fittedLabel(look: NodeLook, width: number, metrics: Metrics, measure: TextMeasure): { label: string; size: number } {
  const room = width - (look.shape === "root" ? 16 : 8);
  const wide = (label: string, size: number) => measure(label, look.font, size, look.font === "ui" && look.shape !== "port");
  const full = labelSize(look, metrics);
  const size = Math.max(Math.min(full, metrics.captionSize), Math.min(full, (full * room) / wide(look.label, full)));
  if (wide(look.label, size) <= room + 0.5) return { label: look.label, size };
  let kept = [...look.label].length - 1;
  while (kept > 1 && wide(middleCut(look.label, kept), size) > room) kept--;
  return { label: middleCut(look.label, kept), size };
}

/** Symbols and variables are written large, names of operations in the size of text. */
export function labelSize(look: NodeLook, metrics: Metrics): number {
  if (look.shape === "scope" || look.shape === "run") return metrics.labelSize;
  if (look.shape === "port") return metrics.captionSize;
  const letters = [...look.label].length;
  if (letters <= 2) return metrics.symbolSize;
  return look.font === "ui" ? metrics.labelSize : Math.max(metrics.labelSize, (metrics.symbolSize * 2.4) / letters);
}

/** The look that a node or an open scope has whatever the cursor and the reader do. */
export function baseLook(model: Model, item: Item): NodeLook {
  if (item.kind !== "node") {
    const subtitle = `${shownCount(item.nodes)} ${item.nodes === 1 ? "node" : "nodes"}`;
    return { shape: "scope", label: text(model, model.trace.scopes.name[item.scope]), font: "ui", params: item.params > 0, subtitle };
  }
  const kind = kindOf(model, item.node);
  const bad = ((model.trace.nodes.flags[item.node] ?? 0) & (FLAG.nanForward | FLAG.nanBackward)) !== 0;
  if (kind === "op" || (kind === "root" && model.trace.nodes.op[item.node]! >= 0)) {
    const symbol = symbolOf(model, item.node);
    return { shape: kind === "root" ? "root" : "op", label: symbol, font: fontOf(symbol), bad };
  }
  return { shape: kind === "root" ? "root" : kind, label: lowered(nameShown(model, item.node)), font: "math", bad };
}

/** Where modules stand around their weights the last part of a name says it; a document that has none tells it in full. */
function nameShown(model: Model, node: number): string {
  const name = nameOf(model, node);
  return model.trace.origins !== undefined && model.trace.nodes.scope[node] === 0 ? middleCut(name, 16) : shortName(name);
}

/** "W1" as the tape writes it: W₁. */
function lowered(name: string): string {
  const [letters, index] = nameAndIndex(name);
  return letters + subscript(index);
}

/** Words are set as text, everything shorter as mathematics: letters italic, signs upright. Roots hang low in fonts for mathematics. */
function fontOf(symbol: string): FontName {
  if (/^[A-Za-z_]\w\w|^[√∛∑∏∫]/.test(symbol)) return "ui";
  return /^\p{L}/u.test(symbol) ? "math" : "symbol";
}

/** "blocks.7.attn.weight" stands as "weight". */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** The widest a lane gets, and the narrowest. */
const WIDTHS = [1.5, 4.5] as const;

/** Width by the logarithm of a size, coded as in `Stats`: 1 is in the middle, ten times more or less is seen. */
export function laneWidth(code: number): number {
  if (code <= 1) return WIDTHS[0];
  const log2 = (Math.min(code, 253) - 128) / 4;
  const share = Math.min(1, Math.max(0, 0.5 + log2 / 24));
  return WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0]);
}

/** Code of NaNs in `Stats`. */
const NAN_CODE = 255;

/** Both lanes of an edge as they are when the whole run has happened. */
export function baseEdge(model: Model, edge: VisibleEdge): EdgeLook {
  let gradient = 0;
  let bad = false;
  let valueBad = false;
  for (const row of edge.rows) {
    const code = model.edgeGradientCode?.[row] ?? 0;
    if (code === NAN_CODE) bad = true;
    else gradient = Math.max(gradient, code);
    if (model.valueCode[model.src[row]!] === NAN_CODE) valueBad = true;
  }
  return {
    value: { width: WIDTHS[0], bad: valueBad },
    gradient: gradient > 0 || bad ? { width: laneWidth(gradient), bad } : null,
  };
}
