/** A page of the local server: its socket to the process behind it, as a host. */
import { Questions, type Host } from "./host";

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

/** Text is JSON. Bytes are 4 for the header's length, the header as JSON, and the arrays where it says. */
export function decoded(data: string | ArrayBuffer): Received {
  if (typeof data === "string") return { ...(JSON.parse(data) as Received), arrays: {} };
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length))) as Received;
  const placed = header.arrays as unknown as Record<string, Placed>;
  const arrays: Record<string, Uint8Array | Float32Array> = {};
  for (const [name, { offset, dtype, shape }] of Object.entries(placed)) {
    const count = shape.reduce((a, b) => a * b, 1);
    const at = 4 + length + offset;
    arrays[name] = dtype === "u1" ? new Uint8Array(data, at, count) : new Float32Array(data, at, count);
  }
  return { ...header, arrays };
}

/** Connects to the server that the page came from. Messages that come before anybody listens are kept. */
export function socketHost(kind: "explorer" | "playground" | "watch", at: Location = location): Host {
  const socket = new WebSocket(`${at.protocol === "https:" ? "wss" : "ws"}://${at.host}/socket`);
  socket.binaryType = "arraybuffer";
  const listeners = new Set<(message: unknown) => void>();
  const early: Received[] = [];
  const unsent: string[] = [];

  const send = (message: unknown) => {
    const text = JSON.stringify(message);
    if (socket.readyState === WebSocket.CONNECTING) unsent.push(text);
    else if (socket.readyState === WebSocket.OPEN) socket.send(text);
  };
  const questions = new Questions(send);
  const { details } = questions;
  const tell = (message: Received) => {
    if (listeners.size === 0) early.push(message);
    for (const listener of listeners) listener(message);
    // Only now is it painted, or about to be: the server sends the next ones.
    if (typeof message.frame === "number") requestAnimationFrame(() => send({ type: "seen", frame: message.frame }));
  };
  socket.onopen = () => {
    for (const text of unsent.splice(0)) socket.send(text);
  };
  socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
    const message = decoded(data);
    if (!questions.take(message)) tell(message);
  };
  socket.onclose = () => {
    questions.end();
    tell({ type: CLOSED, arrays: {} });
  };

  if (kind === "explorer") return { kind: "server", details, ask: questions.ask };
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
