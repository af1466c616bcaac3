/** A run's settings as part of an address: the experiment, and each setting that is not at its default. */
import type { Experiment, Options, OptionValue } from "../messages";

const EXPERIMENT = "play";
const PREFIX = "o.";

export function linkText(experiment: Experiment, options: Options): string {
  const out = new URLSearchParams({ [EXPERIMENT]: experiment.name });
  for (const control of experiment.controls) {
    const value = options[control.name];
    if (value !== undefined && value !== control.default) out.set(PREFIX + control.name, String(value));
  }
  return out.toString();
}

/** What a link asks for; null where it names no experiment that there is. What is wrong in it stays at its default. */
export function linkedRun(hash: string, experiments: readonly Experiment[]): { experiment: string; options: Options } | null {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const experiment = experiments.find(({ name }) => name === given.get(EXPERIMENT));
  if (experiment === undefined) return null;
  const options: Record<string, OptionValue> = {};
  for (const control of experiment.controls) {
    const text = given.get(PREFIX + control.name);
    if (text === null) continue;
    if (control.kind === "switch" && (text === "true" || text === "false")) options[control.name] = text === "true";
    else if (control.kind === "choice" && control.choices.includes(text)) options[control.name] = text;
    else if (control.kind === "text" && text.length <= control.longest) options[control.name] = text;
    else if (control.kind === "number" && text !== "" && Number(text) >= control.low && Number(text) <= control.high && (!control.whole || Number.isInteger(Number(text)))) {
      options[control.name] = Number(text);
    }
  }
  return { experiment: experiment.name, options };
}
