/** Templates of the document (`ops.form`, `ops.local`), taken apart: "{0}² + exp({1})^{2}". */

export type Piece =
  | { readonly kind: "text"; readonly text: string }
  /** `slot` is -1 for the result, {out}. `bracketed`: it already stands between brackets or bars. */
  | { readonly kind: "hole"; readonly slot: number; readonly bracketed: boolean }
  | { readonly kind: "raised" | "lowered"; readonly pieces: readonly Piece[] };

const RAISED: { readonly [sign: string]: string } = {
  "⁰": "0",
  "¹": "1",
  "²": "2",
  "³": "3",
  "⁴": "4",
  "⁵": "5",
  "⁶": "6",
  "⁷": "7",
  "⁸": "8",
  "⁹": "9",
  "⁻": "−",
  "⁺": "+",
  ⁿ: "n",
};
const OPENING = "([{|‖⌊⌈";
const CLOSING = ")]}|‖⌋⌉";
const HOLE = /^\{(\d+|out)\}/;
const WORD = /^[−-]?[\p{L}\d.]+/u;

const parsed = new Map<string, readonly Piece[]>();

/** Templates are few and met often: each is taken apart once. */
export function pieces(template: string): readonly Piece[] {
  const known = parsed.get(template);
  if (known !== undefined) return known;
  const made = split(template, false);
  parsed.set(template, made);
  return made;
}

function split(source: string, inside: boolean): Piece[] {
  const out: Piece[] = [];
  let text = "";
  let depth = inside ? 1 : 0;
  let bars = 0;
  const flush = () => {
    if (text !== "") out.push({ kind: "text", text });
    text = "";
  };
  let rest = source;
  while (rest !== "") {
    const hole = HOLE.exec(rest);
    if (hole !== null) {
      flush();
      out.push({
        kind: "hole",
        slot: hole[1] === "out" ? -1 : Number(hole[1]),
        bracketed: depth > 0 || bars % 2 === 1,
      });
      rest = rest.slice(hole[0].length);
      continue;
    }
    const sign = rest.charAt(0);
    const moved = sign === "^" || sign === "_" ? scripted(rest.slice(1)) : null;
    if (moved !== null) {
      flush();
      out.push({ kind: sign === "^" ? "raised" : "lowered", pieces: split(moved.inner, true) });
      rest = rest.slice(1 + moved.length);
      continue;
    }
    if (RAISED[sign] !== undefined) {
      flush();
      let raised = "";
      while (RAISED[rest.charAt(0)] !== undefined) {
        raised += RAISED[rest.charAt(0)];
        rest = rest.slice(1);
      }
      out.push({ kind: "raised", pieces: [{ kind: "text", text: raised }] });
      continue;
    }
    if (sign === "|" || sign === "‖") bars++;
    else if (OPENING.includes(sign)) depth++;
    else if (CLOSING.includes(sign)) depth--;
    text += sign;
    rest = rest.slice(1);
  }
  flush();
  return out;
}

/** What `^` and `_` move: a hole, a word or number, or what stands between round or curly brackets. */
function scripted(rest: string): { inner: string; length: number } | null {
  const simple = HOLE.exec(rest) ?? WORD.exec(rest);
  if (simple !== null) return { inner: simple[0], length: simple[0].length };
  const open = rest.charAt(0);
  if (open !== "(" && open !== "{") return null;
  let depth = 0;
  for (let i = 0; i < rest.length; i++) {
    if (OPENING.includes(rest.charAt(i)) && rest.charAt(i) !== "|") depth++;
    else if (CLOSING.includes(rest.charAt(i)) && rest.charAt(i) !== "|") depth--;
    if (depth === 0) return { inner: rest.slice(1, i), length: i + 1 };
  }
  return null;
}
