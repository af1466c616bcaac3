/** How numbers are written: few digits, a true minus sign, no surprises. */

export function shownNumber(value: number, digits = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return signed(value, String(size));
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa, exponent] = size.toExponential(Math.max(0, digits - 2)).split("e") as [string, string];
    return signed(value, `${trimmed(mantissa)}e${exponent.replace("+", "").replace("-", "−")}`);
  }
  // By itself `toPrecision` turns to powers of ten where a number has more digits before its point than are shown.
  const short = Number(size.toPrecision(digits));
  return signed(value, size >= 10 ** digits ? String(short) : trimmed(size.toPrecision(digits)));
}

function signed(value: number, text: string): string {
  return value < 0 ? `−${text}` : text;
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A name with so many letters of it, its middle left out: both the part of the program and the end tell names apart. */
export function middleCut(name: string, kept: number): string {
  const letters = [...name];
  if (letters.length <= kept) return name;
  const end = Math.ceil(kept * 0.6);
  return `${letters.slice(0, kept - end).join("")}…${letters.slice(letters.length - end).join("")}`;
}

const BYTES = ["bytes", "kB", "MB", "GB", "TB"] as const;

export function shownBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= 999.5 && unit < BYTES.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : trimmed(value.toPrecision(3))} ${BYTES[unit]}`;
}

export function shownMicros(micros: number): string {
  if (micros < 1000) return `${trimmed(micros.toPrecision(3))} µs`;
  if (micros < 1e6) return `${trimmed((micros / 1e3).toPrecision(3))} ms`;
  return `${trimmed((micros / 1e6).toPrecision(3))} s`;
}

/** A time that was measured; what was computed before anybody watched has none. */
export function shownTime(micros: number): string {
  return micros > 0 ? shownMicros(micros) : "unknown";
}

export function shownShape(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : `[${shape.map((n) => (n < 0 ? "?" : n)).join(", ")}]`;
}

/** A count with its thousands apart: 10,214. */
export function shownCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

const THOUSANDS: readonly (readonly [number, string])[] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** A quantity in steps of a thousand, with room for its unit: "820 M", "1.5 k", "12 ". */
export function shownMany(count: number): string {
  const [size, prefix] = THOUSANDS.find(([least]) => count >= least) ?? [1, ""];
  return `${shownNumber(count / size, 3)} ${prefix}`;
}

/** A name apart from the number that ends it: "w_1" is w with index 1. */
export function nameAndIndex(name: string): readonly [name: string, index: string] {
  const found = /^(.*?[^\d_.])_?(\d{1,6})$/u.exec(name);
  return found === null ? [name, ""] : [found[1] as string, found[2] as string];
}

/** Digits lowered, for places where only plain text can stand: v₁. */
export function subscript(digits: string): string {
  return digits.replace(/\d/g, (digit) => String.fromCharCode(0x2080 + Number(digit)));
}

/** And raised: 10⁶. */
export function superscript(digits: string): string {
  return digits.replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".charAt(Number(digit)));
}

/** A difference quotient: with the digits that show that it is one. */
export function shownQuotient(value: number): string {
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(5) : value.toFixed(6);
  return Number.isFinite(value) ? text.replaceAll("-", "−").replace("e+", "e") : shownNumber(value);
}

/** `1 step`, `2,000 steps`. */
export function shownPlural(count: number, what: string): string {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}
