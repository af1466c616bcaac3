/** A page of the local server: its stream from the process behind it, and what it tells it, as a host. */
import type { Host } from "./host";
import { Questions } from "./questions";

/** Arrays that travel behind a message's header. */
export type Arrays = Readonly<Record<string, Uint8Array | Float32Array>>;

/** A message with a `type`; binary ones bring arrays. */
export interface Received {
  readonly type: string;
  readonly arrays: Arrays;
  readonly [key: string]: unknown;
}

/** Told when the connection is lost. */
export const CLOSED = "closed";

interface Placed {
  readonly offset: number;
  readonly dtype: "u1" | "f4";
  readonly shape: readonly number[];
}

/** A message is 4 bytes for the header's length, the header as JSON, and the arrays where it says. */
export function decoded(data: ArrayBuffer): Received {
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length))) as Received;
  const placed = (header.arrays ?? {}) as unknown as Record<string, Placed>;
  const arrays: Record<string, Uint8Array | Float32Array> = {};
  for (const [name, { offset, dtype, shape }] of Object.entries(placed)) {
    const count = shape.reduce((a, b) => a * b, 1);
    const at = 4 + length + offset;
    arrays[name] = dtype === "u1" ? new Uint8Array(data, at, count) : new Float32Array(data, at, count);
  }
  return { ...header, arrays };
}

/** Gathers the pieces of a stream into its messages, each behind 4 bytes for its length and in a buffer of its own. */
export function splitter(tell: (message: ArrayBuffer) => void): (piece: Uint8Array) => void {
  const length = new Uint8Array(4);
  let message: Uint8Array | null = null;
  let filled = 0;
  return (piece) => {
    for (let at = 0; at < piece.length; ) {
      const into: Uint8Array = message ?? length;
      const taken = Math.min(into.length - filled, piece.length - at);
      into.set(piece.subarray(at, at + taken), filled);
      filled += taken;
      at += taken;
      if (filled < into.length) return;
      filled = 0;
      if (message === null) message = new Uint8Array(new DataView(length.buffer).getUint32(0, true));
      else {
        tell(message.buffer as ArrayBuffer);
        message = null;
      }
    }
  };
}

/**
 * Connects to the server that the page came from: it tells in one long answer, and is told in requests, one at a time
 * with all that waits. Messages that come before anybody listens are kept.
 */
export function streamHost(kind: "explorer" | "playground" | "watch"): Host {
  const listeners = new Set<(message: unknown) => void>();
  const early: Received[] = [];
  const unsent: unknown[] = [];
  let stream: string | null = null;
  let sending = false;
  let closed = false;

  const send = (message: unknown) => {
    if (closed) return;
    unsent.push(message);
    void flush();
  };
  const questions = new Questions(send);
  const flush = async () => {
    if (sending || stream === null || unsent.length === 0) return;
    sending = true;
    const body = JSON.stringify(unsent.splice(0));
    try {
      const answer = await fetch(`/messages?stream=${stream}`, { method: "POST", body });
      if (answer.status === 413) tell({ type: "error", text: "this is too long to be sent", arrays: {} });
    } catch {
      close();
    }
    sending = false;
    void flush();
  };
  const tell = (message: Received) => {
    if (listeners.size === 0) early.push(message);
    for (const listener of listeners) listener(message);
    // Only now is it painted, or about to be: the server sends the next ones.
    if (typeof message.frame === "number") requestAnimationFrame(() => send({ type: "seen", frame: message.frame }));
  };
  const take = (data: ArrayBuffer) => {
    const message = decoded(data);
    if (message.type === "opened") {
      stream = message.stream as string;
      void flush();
    } else if (!questions.take(message)) tell(message);
  };
  const close = () => {
    if (closed) return;
    closed = true;
    questions.end();
    tell({ type: CLOSED, arrays: {} });
  };
  const listen = async () => {
    const answer = await fetch("/stream", { method: "POST" });
    if (!answer.ok || answer.body === null) return;
    const reader = answer.body.getReader();
    const split = splitter(take);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      split(value);
    }
  };
  // A connection that breaks is a process that has ended.
  void listen().then(close, close);

  const { details, ask, rerun } = questions;
  if (kind === "explorer") return { kind: "server", details, ask, rerun };
  return {
    kind: "server",
    details,
    send,
    receive(listener) {
      listeners.add(listener);
      for (const message of early.splice(0)) listener(message);
      return () => listeners.delete(listener);
    },
  };
}
