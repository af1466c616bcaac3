/** A document in which nothing was recorded. */
import type { Trace } from "./types";

export function emptyTrace(title: string): Trace {
  const stats = () => ({ rms: "", scalar: [], details: {} });
  return {
    schema: "wengert.trace/1",
    meta: { script: "", title, wengert: "", roots: [], values: true },
    strings: ["", title],
    shapes: [],
    ops: { name: [], symbol: [], pattern: [], form: [], precedence: [], local: [], say: [] },
    scopes: { parent: [-1], name: [1], kind: ["root"], hash: [0] },
    nodes: { op: [], scope: [], kind: [], name: [], dtype: [], shape: [], span: [], flags: [], flops: [] },
    edges: { dst: [], src: [], slot: [] },
    saved: { node: [], value: [] },
    stats: { value: stats(), gradient: stats() },
    events: { phase: [], node: [], t0: [], dur: [], thread: [] },
    buffers: { bytes: [], class: [], node: [], first: [], last: [] },
    spans: { file: [], line0: [], col0: [], line1: [], col1: [] },
    files: [],
    findings: [],
  };
}
