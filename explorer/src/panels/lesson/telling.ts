/** One step told: a plain sentence, and the same with its numbers in it. */
import { shownNumber, shownShape } from "../../format";
import { copiedFor } from "../../fold/copies";
import { localOf, namePart, numbersOf, originOf, plain, recordOf, type Part } from "../../formula/expression";
import { edgesAt, phaseAt, recordedAmount, recordedSize, shapeOf, type Model } from "../../trace/model";
import type { Pattern, Phase } from "../../trace/types";
import type { Numbers } from "../../state";
import { arrivals, carries, edgeGradient, hasGradient } from "./progress";

export type Tone = "plain" | "strong" | "em" | "value" | "gradient";
export type Bit =
  | { readonly kind: "text"; readonly text: string; readonly tone: Tone }
  | { readonly kind: "math"; readonly parts: readonly Part[] }
  /** ∂L/∂w */
  | { readonly kind: "derivative"; readonly of: Part; readonly by: Part };

/** Bits that are kept on one line together. */
export type Phrase = readonly Bit[];

export interface Telling {
  readonly phase: Phase | "start";
  readonly node: number;
  /** What the badge says: the pattern going back, the operation going forward. */
  readonly badge: string;
  readonly pattern: Pattern;
  readonly sentence: Phrase;
  readonly numbers: readonly Phrase[];
  /** "back 4 of 4" */
  readonly place: string;
}

const text = (what: string, tone: Tone = "plain"): Bit => ({ kind: "text", text: what, tone });
const value = (x: number): Bit => text(shownNumber(x), "value");
const gradient = (x: number): Bit => text(shownNumber(x), "gradient");
const math = (parts: readonly Part[]): Bit => ({ kind: "math", parts });

/** The event before the cursor, told; at the end of a run that failed, how it ended. */
export function tellingOf(model: Model, numbers: Numbers, cursor: number): Telling {
  const told = eventTold(model, numbers, cursor);
  const { error } = model.trace.meta;
  if (error === undefined || cursor < model.events) return told;
  return {
    ...told,
    numbers: [...told.numbers, [text("Here the run ended: "), text(`${error.type}: ${error.text}`, "strong")]],
  };
}

function eventTold(model: Model, numbers: Numbers, cursor: number): Telling {
  const event = cursor - 1;
  if (event < 0) return beginning(model);
  const node = model.trace.events.node[event] as number;
  const phase = phaseAt(model, event);
  const place = placeOf(model, event, phase);
  if (node >= 0 && phase === "backward") return backward(model, numbers, node, event, place);
  if (node >= 0 && phase !== "optimizer") return forward(model, numbers, node, phase, place);
  return { ...blank(phase, node, place), sentence: [text("The optimiser takes its step.", "strong")] };
}

function blank(phase: Phase | "start", node: number, place: string): Telling {
  return { phase, node, badge: "", pattern: "none", sentence: [], numbers: [], place };
}

function beginning(model: Model): Telling {
  if (model.events === 0) {
    const sentence = model.trace.meta.values
      ? "Nothing was computed."
      : "Only the structure was recorded: there are no values to tell of.";
    return { ...blank("start", -1, ""), sentence: [text(sentence, "strong")] };
  }
  return {
    ...blank("start", -1, `${model.events} steps`),
    sentence: [text("Only the leaves have values.", "strong")],
    numbers: [[text("Press space to play, → for one step.")]],
  };
}

const PASSES: { readonly [phase in Phase]: string } = {
  forward: "forward",
  backward: "back",
  optimizer: "optimiser",
  recompute: "again",
};

function placeOf(model: Model, event: number, phase: Phase): string {
  let of = 0;
  let at = 0;
  for (let k = 0; k < model.events; k++) {
    if (phaseAt(model, k) !== phase) continue;
    of++;
    if (k <= event) at++;
  }
  return `${PASSES[phase]} ${at} of ${of}`;
}

// -- forward

function forward(model: Model, numbers: Numbers, node: number, phase: Phase, place: string): Telling {
  const op = model.trace.nodes.op[node] as number;
  const name = op < 0 ? "" : (model.trace.ops.name[op] as string);
  const kept = keptBy(model, node);
  if ((copiedFor(model)[node] as number) >= 0) {
    const sentence = [math([namePart(model, node)]), text(` is copied to ${shownShape(shapeOf(model, node))}, to fit the other one; nothing needs to be kept.`, "strong")];
    return { phase, node, badge: "copied", pattern: model.trace.ops.pattern[op] ?? "none", sentence, numbers: [], place };
  }
  const sentence: Bit[] = [
    math([namePart(model, node)]),
    text(phase === "recompute" ? " is computed again, for the way back" : " is computed", "strong"),
    ...(kept.length === 0
      ? [text(phase === "recompute" ? "." : "; nothing needs to be kept.", "strong")]
      : [
          text(", and ", "strong"),
          ...listed(kept.map((row) => math([namePart(model, row)]))),
          text(kept.length === 1 ? " is kept for the way back." : " are kept for the way back.", "strong"),
        ]),
  ];
  const pattern = model.trace.ops.pattern[op] ?? "none";
  return { phase, node, badge: name, pattern, sentence, numbers: [computed(model, numbers, node)], place };
}

/** v1 = w · x = 2 · 3 = 6; for tensors their shapes. */
function computed(model: Model, numbers: Numbers, node: number): Phrase {
  const out = numbers.value(node);
  const start: Bit[] = [math([namePart(model, node)]), text(" = "), math(recordOf(model, node))];
  const sources = Array.from(edgesAt(model.operands, node), (edge) => model.src[edge] as number);
  if (out === null || sources.some((source) => numbers.value(source) === null)) {
    const shapes = sources.map((source) => shownShape(shapeOf(model, source))).join(", ");
    return [...start, text(`   ${shapes} → ${shownShape(shapeOf(model, node))}`)];
  }
  const filled = numbersOf(model, node, (row) => shownNumber(numbers.value(row) ?? Number.NaN));
  return [...start, text(" = "), math(filled), text(" = "), value(out)];
}

/** The values that a node keeps for its backward step. */
export function keptBy(model: Model, node: number): number[] {
  const { node: keepers, value: kept } = model.trace.saved;
  return keepers.flatMap((keeper, i) => (keeper === node ? [kept[i] as number] : []));
}

function listed(items: readonly Bit[]): Bit[] {
  return items.flatMap((item, i) => (i === 0 ? [item] : [text(i === items.length - 1 ? " and " : ", "), item]));
}

// -- backward

function backward(model: Model, numbers: Numbers, node: number, event: number, place: string): Telling {
  const op = model.trace.nodes.op[node] as number;
  const pattern = model.trace.ops.pattern[op] ?? "none";
  const arrived = numbers.gradient(node);
  const edges = Array.from(edgesAt(model.operands, node)).filter((edge) => carries(model, edge));
  const single = arrived !== null && edges.every((edge) => numbers.slope(edge) !== null);
  const told = single
    ? [arriving(model, numbers, node, arrived, event), ...edges.map((edge) => handed(model, numbers, edge, event))]
    : [sizesArriving(model, numbers, node), ...edges.map((edge) => sizeHanded(model, edge))];
  return {
    phase: "backward",
    node,
    badge: pattern === "none" ? (model.trace.ops.name[op] ?? "") : pattern,
    pattern,
    sentence: marked(model.trace.ops.say[op] ?? ""),
    numbers: told,
    place,
  };
}

/** "With 4 arriving:", or where several uses of one value sent something, "With 4 + 2 = 6 arriving:". */
function arriving(model: Model, numbers: Numbers, node: number, arrived: number, event: number): Phrase {
  const parts = arrivals(model, numbers, node, event);
  const sum: Bit[] = parts.length > 1 ? [...summed(parts), text(" = ")] : [];
  return [text("With "), ...sum, gradient(arrived), text(" arriving:")];
}

function summed(parts: readonly number[]): Bit[] {
  return parts.flatMap((part, i) => {
    if (i === 0) return [gradient(part)];
    return [text(part < 0 ? " − " : " + "), gradient(Math.abs(part))];
  });
}

/** "∂L/∂w = 4 × 3 = 12"; where others have sent something before, "∂L/∂a = 2 + 4 × 1 = 6". */
function handed(model: Model, numbers: Numbers, edge: number, event: number): Phrase {
  const source = model.src[edge] as number;
  const node = model.dst[edge] as number;
  const arrived = numbers.gradient(node) as number;
  const slope = numbers.slope(edge) as number;
  const part = edgeGradient(model, numbers, edge) as number;
  // What came along this node's own earlier slots has arrived before too: x · x.
  const sameBefore = Array.from(edgesAt(model.operands, node)).filter(
    (other) => model.src[other] === source && (model.slot[other] as number) < (model.slot[edge] as number),
  );
  const before = [
    ...arrivals(model, numbers, source, event),
    ...sameBefore.map((other) => edgeGradient(model, numbers, other)).filter((x) => x !== null),
  ];
  const last = sameBefore.length + 1 === usesBy(model, node, source);
  const whole = last && hasGradient(model, source, event + 1);
  const sum = before.reduce((a, b) => a + b, 0);
  return [
    { kind: "derivative", of: lossPart(model), by: namePart(model, source) },
    text(" = "),
    ...(before.length > 0 ? [gradient(sum), text(" + ")] : []),
    // A sign after a sign stands in brackets.
    ...(before.length > 0 && arrived < 0 ? [text("("), gradient(arrived), text(")")] : [gradient(arrived)]),
    text(" × "),
    ...slopeBits(model, numbers, node, model.slot[edge] as number, slope),
    text(" = "),
    gradient(sum + part),
    ...(whole ? [] : [text(" so far")]),
  ];
}

function usesBy(model: Model, node: number, source: number): number {
  return Array.from(edgesAt(model.operands, node)).filter((edge) => model.src[edge] === source).length;
}

/** The slope with its own numbers where it is more than one: "(2 · 2)". */
function slopeBits(model: Model, numbers: Numbers, node: number, slot: number, slope: number): Bit[] {
  const shown = (row: number) => shownNumber(numbers.value(row) ?? Number.NaN);
  const local = localOf(model, node, slot, shown);
  const single = shownNumber(slope);
  if (local === null || plain(local) === single || !/\d/.test(plain(local))) {
    return slope < 0 ? [text("("), value(slope), text(")")] : [value(slope)];
  }
  const bare = local.length === 1 && !plain(local).startsWith("−");
  return bare ? [math(local)] : [text("("), math(local), text(")")];
}

export function lossPart(model: Model): Part {
  return namePart(model, model.trace.meta.roots[0] ?? 0);
}

// -- tensors: shapes and sizes, and single numbers where slopes are none

function isSingle(model: Model, node: number): boolean {
  return shapeOf(model, node).every((n) => n === 1);
}

function sizesArriving(model: Model, numbers: Numbers, node: number): Phrase {
  const number = numbers.gradient(node);
  if (number !== null) return [text("With "), gradient(number), text(" arriving:")];
  const size = recordedSize(model, node, true);
  return [text(`With a gradient of shape ${shownShape(shapeOf(model, node))} arriving${size === null ? "" : ` (size ${shownNumber(size)})`}:`)];
}

/** "∂L/∂w [3], size 0.25"; of a single number "∂L/∂b = −5.276", or where other uses send something too "∂L/∂b: −5.276 of it". */
function sizeHanded(model: Model, edge: number): Phrase {
  const source = model.src[edge] as number;
  const derivative: Bit = { kind: "derivative", of: lossPart(model), by: namePart(model, source) };
  const amount = recordedAmount(model, edge);
  if (!isSingle(model, source)) {
    return [derivative, text(` ${shownShape(shapeOf(model, source))}${amount === null ? "" : `, size ${shownNumber(amount)}`}`)];
  }
  if (amount === null) return [derivative];
  const alone = edgesAt(model.consumers, source).length === 1;
  return alone ? [derivative, text(" = "), gradient(amount)] : [derivative, text(": "), gradient(amount), text(" of it")];
}

// -- words

/** "the *other* one" with what stands between asterisks emphasised. */
function marked(sentence: string): Phrase {
  return sentence.split("*").map((piece, i) => text(piece, i % 2 === 1 ? "em" : "strong"));
}

/** A phrase as plain text, for screen readers and tests. */
export function plainPhrase(phrase: Phrase): string {
  return phrase
    .map((bit) => {
      if (bit.kind === "text") return bit.text;
      if (bit.kind === "math") return plain(bit.parts);
      return `∂${plain([bit.of])}/∂${plain([bit.by])}`;
    })
    .join("");
}

export function plainTelling(told: Telling): string {
  return [plainPhrase(told.sentence), ...told.numbers.map(plainPhrase)].filter((line) => line !== "").join(" ");
}

/** The node whose expression is lit: a second name lights what it names. */
export function litNode(model: Model, told: Telling): number {
  return told.node < 0 ? -1 : originOf(model, told.node);
}
