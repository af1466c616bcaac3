/** Where the explorer runs: a file by itself, a notebook cell with a kernel, a page of the local server, or the playground by itself. */
import type { Details } from "../trace/types";

export interface Host {
  readonly kind: "page" | "widget" | "server" | "local";
  /** Whole-tensor statistics on demand; null where nothing answers. */
  details?(node: number, gradient: boolean): Promise<Details | null>;
  /** Messages to and from the process behind the page, for the playground. */
  send?(message: unknown): void;
  receive?(listener: (message: unknown) => void): () => void;
}

export const pageHost: Host = { kind: "page" };
