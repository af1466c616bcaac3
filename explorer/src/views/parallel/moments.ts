/** The clock of a schedule: the moments at which something begins or ends, and how busy it is between them. */
import type { Lives } from "./lives";

export interface Moments {
  /** Microseconds, ascending, each once; the first is 0. */
  at: Float64Array;
  /** How many rows run from each moment to the next. */
  running: Int32Array;
  /** Ends of rows, ascending. */
  ends: Float64Array;
}

export function momentsOf(lives: Lives): Moments {
  const starts = lives.start.slice().sort();
  const ends = lives.end.slice().sort();
  const at = new Float64Array(2 * lives.count + 1);
  const running = new Int32Array(at.length);
  let [s, e, count] = [0, 0, 0];
  for (let time = 0; ; ) {
    while (s < starts.length && (starts[s] as number) <= time) s++;
    while (e < ends.length && (ends[e] as number) <= time) e++;
    at[count] = time;
    running[count++] = s - e;
    if (e === ends.length) break;
    time = s < starts.length ? Math.min(starts[s] as number, ends[e] as number) : (ends[e] as number);
  }
  return { at: at.slice(0, count), running: running.slice(0, count), ends };
}

/** How many numbers of an ascending column are at most `limit`. */
export function upTo(column: Float64Array, limit: number): number {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((column[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The moment so many moments on from `now`; back to the beginning of the one that it is in first. */
export function stepFrom({ at }: Moments, now: number, by: number): number {
  const here = upTo(at, now) - 1;
  const within = by < 0 && now > (at[here] as number) ? 1 : 0;
  return at[Math.max(0, Math.min(at.length - 1, here + by + within))] as number;
}

/** Stretches in which nobody works pass by so many times as fast. */
const IDLE_FASTER = 15;

/** Where a clock is that is at `now` and goes on for `micros`, and hurries where nobody works. */
export function advanced({ at, running }: Moments, now: number, micros: number): number {
  let left = micros;
  let time = now;
  for (let i = Math.max(0, upTo(at, now) - 1); left > 0 && i < at.length - 1; i++) {
    const pace = running[i] === 0 ? IDLE_FASTER : 1;
    const room = ((at[i + 1] as number) - time) / pace;
    if (room >= left) return time + left * pace;
    left -= room;
    time = at[i + 1] as number;
  }
  return Math.max(time, now);
}

/** How long a run of so many rows is played, in seconds: enough to follow a small one, not more than one waits for a large one. */
export function playSeconds(rows: number): number {
  return Math.min(24, 4 + 0.22 * rows);
}

/** Time in which somebody works, and the rest at the pace at which it passes by. */
export function playedMicros({ at, running }: Moments): number {
  let sum = 0;
  for (let i = 0; i + 1 < at.length; i++) sum += ((at[i + 1] as number) - (at[i] as number)) / (running[i] === 0 ? IDLE_FASTER : 1);
  return sum;
}
