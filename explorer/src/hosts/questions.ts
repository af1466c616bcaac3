/** What a page asks the process behind it, and the answers as they come. */
import type { Details } from "../trace/types";
import type { Answers, Rerun } from "./host";

/** Questions that wait for their answers, by number. */
export class Questions {
  private readonly waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (reason: Error) => void }>();
  private last = 0;
  private ended = false;

  constructor(private readonly send: (message: unknown) => void) {}

  readonly details = (node: number, gradient: boolean) => this.put({ node, gradient }) as Promise<Details | null>;
  readonly ask = <Q extends keyof Answers>(question: Q, node: number) => this.put({ ask: question, node }) as Promise<Answers[Q] | null>;
  readonly rerun = (wanted: Rerun) => this.put({ ask: "inputs", ...wanted });

  private put(question: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.ended) return resolve(null);
      this.waiting.set(++this.last, { resolve, reject });
      this.send({ id: this.last, ...question });
    });
  }

  /** Whether a message was an answer. */
  take(message: unknown): boolean {
    if (typeof message !== "object" || message === null || !("id" in message) || !("details" in message || "answer" in message)) return false;
    const { id, details, answer, error } = message as { id: number; details?: unknown; answer?: unknown; error?: string };
    const found = this.waiting.get(id);
    this.waiting.delete(id);
    if (error !== undefined) found?.reject(new Error(error));
    else found?.resolve(details ?? answer ?? null);
    return true;
  }

  /** Nobody will answer any more. */
  end(): void {
    this.ended = true;
    for (const { resolve } of this.waiting.values()) resolve(null);
    this.waiting.clear();
  }
}
