/** Where the explorer runs: a file by itself, a notebook cell with a kernel, a page of the local server, or the playground by itself. */
import type { Tab } from "../state";
import type { Details, InFloat64, Kernels, Parallel, TensorPaths } from "../trace/types";

/** What takes the process behind the page some time to tell. */
export interface Answers {
  readonly float64: InFloat64;
  readonly paths: TensorPaths;
  /** The line that the debugger was sent to; asked for by a row of spans. */
  readonly break: { readonly at: string };
  readonly kernels: { readonly parallel?: Parallel; readonly kernels?: Kernels; readonly native?: Parallel };
}

/** What inputs of a model are made of: texts that say how, or JSON. */
export interface Rerun {
  readonly seed: number;
  readonly sizes: Readonly<Record<string, number>>;
  readonly inputs: Readonly<Record<string, string>>;
}

/** The recordings that a page carries, as the lessons of a course. */
export interface Shelf {
  readonly names: readonly string[];
  /** The one that is shown. */
  readonly at: number;
  open(at: number, tab: Tab): void;
}

export interface Host {
  /** Where there are several. */
  readonly shelf?: Shelf;
  readonly kind: "page" | "widget" | "server" | "local";
  /** Whole-tensor statistics on demand; null where nothing answers. */
  details?(node: number, gradient: boolean): Promise<Details | null>;
  /** Null where it cannot be told; rejected with the reason where that is an error. */
  ask?<Q extends keyof Answers>(question: Q, node: number): Promise<Answers[Q] | null>;
  /** Run a model on other inputs; then the server's page is that of the new run. Rejected with the reason where it cannot be. */
  rerun?(wanted: Rerun): Promise<unknown>;
  /** Messages to and from the process behind the page, for the playground. */
  send?(message: unknown): void;
  receive?(listener: (message: unknown) => void): () => void;
}

export const pageHost: Host = { kind: "page" };
