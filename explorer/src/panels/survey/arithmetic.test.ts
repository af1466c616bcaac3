import { expect, test } from "vitest";
import { numbersOf } from "./arithmetic";

test("values that something is taken at are not what it equals", () => {
  expect(numbersOf("x = 0 gives −∞")).toEqual({ joint: ":", given: "x = 0", sign: "gives", outcome: "−∞" });
  expect(numbersOf("a = 0, b = 0 gives NaN")).toEqual({ joint: ":", given: "a = 0, b = 0", sign: "gives", outcome: "NaN" });
});

test("a product equals its outcome", () => {
  expect(numbersOf("0 × ∞ = NaN")).toEqual({ joint: "=", given: "0 × ∞", sign: "=", outcome: "NaN" });
  expect(numbersOf("12")).toEqual({ joint: "=", given: "12", sign: "", outcome: "" });
});
