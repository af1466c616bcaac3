/** Text to bytes to tables: how a trace is packed into a page, and its numbers into JSON. */
import type { Num, Trace } from "./types";

export function num(value: Num): number {
  if (typeof value === "number") return value;
  if (value === "nan") return Number.NaN;
  return value === "inf" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
}

export function optionalNum(value: Num | null | undefined): number | null {
  return value === null || value === undefined ? null : num(value);
}

export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** The root mean square that a code of `PassStats.rms` stands for; null for "no value". */
export function rmsOfCode(code: number): number | null {
  if (code === 0) return null;
  if (code === 1) return 0;
  if (code === 254) return Number.POSITIVE_INFINITY;
  if (code === 255) return Number.NaN;
  return 2 ** ((code - 128) / 4);
}

/** A trace from the text inside a page: JSON, or the base64 of gzipped JSON. */
export async function unpack(text: string): Promise<Trace> {
  const packed = text.trim();
  const json = packed.startsWith("{") ? packed : await gunzip(bytesOfBase64(packed));
  return parse(json);
}

export function parse(json: string): Trace {
  const trace = JSON.parse(json) as Trace;
  if (!/^wengert\.trace\/1(\.|$)/.test(trace.schema)) {
    throw new Error(`This page reads wengert.trace/1, and the document says ${String(trace.schema)}.`);
  }
  for (const table of Object.values(trace) as unknown[]) {
    if (typeof table === "object" && table !== null && !Array.isArray(table)) unfold(table as Record<string, unknown>);
  }
  const operandAt = operandFinder(trace);
  findSaved(trace, operandAt);
  findHolders(trace, operandAt);
  return trace;
}

/** The row of a node's operand at a slot. */
function operandFinder({ edges }: Trace): (node: number, slot: number) => number {
  const first = new Map<number, number>();
  const rows: number[] = [];
  let dst = 0;
  edges.dst.forEach((step, e) => {
    dst += step;
    rows.push(dst);
    if (!first.has(dst)) first.set(dst, e);
  });
  return (node, slot) => {
    let e = first.get(node) as number;
    while (rows[e] === node && edges.slot[e] !== slot) e++;
    return node - (edges.src[e] as number);
  };
}

type BySlot = { operand?: number[] };

/** Rows in the place of operands' slots, where a large document tells what is kept by them. */
function findSaved({ saved }: Trace, operandAt: (node: number, slot: number) => number): void {
  const { operand } = saved.value as BySlot;
  if (operand === undefined) return;
  saved.value = operand.map((slot, i) => {
    const node = saved.node[i] as number;
    return slot < 0 ? node : operandAt(node, slot);
  });
}

/** And where it tells by them whose a buffer is. */
function findHolders({ buffers, events }: Trace, operandAt: (node: number, slot: number) => number): void {
  const { operand } = buffers.node as BySlot;
  if (operand === undefined) return;
  buffers.node = operand.map((slot, b) => {
    if (slot < -1) return -2 - slot;
    const node = events.node[buffers.first[b] as number] as number;
    return slot < 0 ? node : operandAt(node, slot);
  });
}

/** Put whole numbers in the place of the differences that a large document has: see `Trace`. */
function unfold(table: Record<string, unknown>): void {
  for (const [name, column] of Object.entries(table)) {
    if (typeof column !== "object" || column === null || !("delta" in column)) continue;
    let last = 0;
    table[name] = (column as { delta: number[] }).delta.map((step) => (last += step));
  }
}

export async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The code that stands for a size: what `rmsOfCode` reads. */
export function codeOfRms(size: number): number {
  if (Number.isNaN(size)) return 255;
  if (size === 0) return 1;
  if (Math.abs(size) === Number.POSITIVE_INFINITY) return 254;
  return Math.max(2, Math.min(253, Math.round(128 + 4 * Math.log2(Math.abs(size)))));
}
