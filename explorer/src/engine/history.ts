/** The history of a run, any step of it again: the twin of `playground/history.py`, whose docstring says how. */
import type { OptionValue } from "../views/play/messages";
import type { Run, State } from "./runs";

const MOST = 400;
/** A run has diverged where its loss is not finite, or so many times that of its first step. */
const DIVERGED = 1e4;

export class History {
  at = 0;
  stride = 1;
  diverged: number | null = null;
  readonly series: number[][];
  private changes = new Map<number, (() => void)[]>();
  private kept = new Map<number, State>();

  constructor(readonly run: Run) {
    const first = run.measure();
    this.series = first.map(() => []);
    this.write(first);
    this.keep();
  }

  get last(): number {
    return (this.series[0]?.length ?? 0) - 1;
  }

  advance(): void {
    this.run.step();
    this.at++;
    if (this.at % this.stride === 0 && !this.kept.has(this.at)) this.keep();
    this.changeAgain();
    if (this.at > this.last) this.write(this.run.measure());
  }

  set(name: string, value: OptionValue): void {
    this.change(() => this.run.set(name, value));
  }

  edit(parameter: number, index: number, value: number): void {
    this.change(() => this.run.edit(parameter, index, value));
    this.drop(this.at);
    this.write(this.run.measure());
  }

  seek(to: number): void {
    const step = Math.max(0, Math.min(to, this.last));
    if (step !== this.at) {
      const nearest = Math.max(...[...this.kept.keys()].filter((k) => k <= step));
      if (!(nearest <= this.at && this.at <= step)) {
        this.run.load(this.kept.get(nearest) as State);
        this.at = nearest;
        this.changeAgain();
      }
    }
    while (this.at < step) this.advance();
  }

  private change(act: () => void): void {
    act();
    this.drop(this.at + 1);
    for (const map of [this.changes, this.kept]) for (const k of [...map.keys()]) if (k > this.at) map.delete(k);
    this.changes.set(this.at, [...(this.changes.get(this.at) ?? []), act]);
  }

  private changeAgain(): void {
    for (const act of this.changes.get(this.at) ?? []) act();
  }

  private drop(step: number): void {
    for (const values of this.series) values.length = Math.min(values.length, step);
    if (this.diverged !== null && this.diverged >= step) this.diverged = null;
  }

  private write(found: readonly number[]): void {
    this.series.forEach((values, i) => values.push(found[i] as number));
    const losses = this.series[0] as number[];
    const bound = DIVERGED * Math.max(losses[0] as number, 1);
    if (this.diverged === null && !((losses.at(-1) as number) <= bound)) this.diverged = this.last;
  }

  private keep(): void {
    this.kept.set(this.at, this.run.save());
    while (this.kept.size > MOST) {
      this.stride *= 2;
      for (const k of [...this.kept.keys()]) if (k % this.stride !== 0) this.kept.delete(k);
    }
  }
}
