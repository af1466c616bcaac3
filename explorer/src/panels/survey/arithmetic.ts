/** The numbers of a finding: what is put in, the outcome, and the sign between them. */
export interface Numbers {
  /** What stands behind the formula: what it equals, or the values that it is taken at. */
  readonly joint: "=" | ":";
  readonly given: string;
  readonly sign: "=" | "gives" | "";
  readonly outcome: string;
}

/** "2 × 3 = 6" is what the formula comes to; "x = 0 gives −∞" says at which values it comes to what. */
export function numbersOf(numbers: string): Numbers {
  const gives = numbers.lastIndexOf(" gives ");
  if (gives >= 0) return { joint: ":", given: numbers.slice(0, gives), sign: "gives", outcome: numbers.slice(gives + 7) };
  const cut = numbers.lastIndexOf("=");
  if (cut < 0) return { joint: "=", given: numbers, sign: "", outcome: "" };
  return { joint: "=", given: numbers.slice(0, cut).trim(), sign: "=", outcome: numbers.slice(cut + 1).trim() };
}
