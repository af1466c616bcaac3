/** A schedule in sentences: what happens at a moment, why a piece of work waited, what held up the end. */
import { shownMicros, shownPlural } from "../../format";
import { upTo, type Moments } from "./moments";
import type { Held, Reasons } from "./held";
import type { Lives } from "./lives";

/** "At 34 µs: w0 and w2 work, w1 is idle; 2 steps are ready, 5 wait." */
export function toldAt(lives: Lives, moments: Moments, now: number): string {
  const { at, running } = moments;
  const busy = running[upTo(at, now) - 1] ?? 0;
  let [ready, waiting, done] = [0, 0, 0];
  for (let k = 0; k < lives.count; k++) {
    if ((lives.end[k] as number) <= now) done++;
    else if ((lives.ready[k] as number) > now) waiting++;
    else if ((lives.start[k] as number) > now) ready++;
  }
  if (done === lives.count) return `At ${shownMicros(lives.micros)} all ${shownPlural(lives.count, "step")} are done.`;
  const work = busy === 0 ? "nobody works" : `${busy} of ${shownPlural(lives.workers, "worker")} ${busy === 1 ? "works" : "work"}`;
  return `At ${shownMicros(now)} ${work}: ${done.toLocaleString("en")} done, ${ready.toLocaleString("en")} ready, ${waiting.toLocaleString("en")} ${waiting === 1 ? "waits" : "wait"} for others.`;
}

/** Why a piece of work began when it did, and who ran it. */
export function whyWaited(lives: Lives, reasons: Reasons, row: number): string {
  const [ready, start, end, worker] = [lives.ready, lives.start, lives.end, lives.worker].map((column) => column[row]) as [number, number, number, number];
  const reason = reasons.of(row);
  const parents = reasons.before(row);
  const last = parents.reduce((a, b) => (a >= 0 && (lives.end[a] as number) >= (lives.end[b] as number) ? a : b), -1);
  const who = (r: number) => `${lives.label(r)} (w${lives.worker[r]}, until ${shownMicros(lives.end[r] as number)})`;
  const parts: string[] = [];
  if (last < 0 && reason.cause !== "turn") parts.push("waits for nothing");
  else if (reason.cause === "turn") parts.push(`waited for its turn, after ${who(reason.after)}`);
  else parts.push(`waited for ${who(last)}${parents.length > 1 ? `, the last of ${parents.length}` : ""}`);
  if (reason.cause === "worker") parts.push(`then ${shownMicros(start - ready)} for a worker: w${worker} was busy with ${lives.label(reason.after)}`);
  else if (start - ready > 0.01 * Math.max(1e-9, end - start) && start - ready > 0) parts.push(`then ${shownMicros(start - ready)} to be handed over`);
  parts.push(`ran ${shownMicros(end - start)} on w${worker}, from ${shownMicros(start)} to ${shownMicros(end)}`);
  return `${lives.label(row)}: ${parts.join("; ")}.`;
}

/** What held up the end, against the critical path. */
export function whatHeld(lives: Lives, held: Held, critical: number): string {
  const over = lives.micros - critical;
  if (held.queued === 0 && over <= 1e-6 * lives.micros) return "The critical path itself: more workers would not help.";
  const parts: string[] = [];
  if (held.queued > 0) parts.push(`${held.queued === 1 ? "one step" : `${held.queued} steps`} on the way to the end had to wait for a worker that was busy`);
  if (held.idle > 0.01 * lives.micros) parts.push(`${shownMicros(held.idle)} went by on it in which nothing ran`);
  if (parts.length === 0) return "A chain of steps of which each needs the one before.";
  const text = parts.join(", and ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
