/**
 * A schedule for other tools: as a Chrome trace, which Perfetto and chrome://tracing open, and as a flame graph by module,
 * both as collapsed stacks (what flamegraph.pl, speedscope and others read) and as a picture.
 */
import { opOf, scopePath, type Model } from "../../trace/model";
import { shownMicros } from "../../format";
import type { Lives } from "./lives";

interface TraceEvent {
  name: string;
  cat: string;
  ph: "X" | "M";
  ts: number;
  dur?: number;
  pid: number;
  tid: number;
  args: { [key: string]: unknown };
}

/** Complete events in microseconds, one for each row (Trace Event Format). */
export function chromeTrace(model: Model, lives: Lives): { traceEvents: TraceEvent[]; displayTimeUnit: "ns" } {
  const named = Array.from({ length: lives.workers }, (_, w): TraceEvent => ({ name: "thread_name", cat: "__metadata", ph: "M", ts: 0, pid: 0, tid: w, args: { name: `worker ${w}` } }));
  const rows = Array.from({ length: lives.count }, (_, k): TraceEvent => {
    const node = lives.node[k] as number;
    const module = node < 0 ? "" : scopePath(model, model.trace.nodes.scope[node] as number).join(".");
    return {
      name: lives.label(k),
      cat: lives.backward[k] === 1 ? "backward" : "forward",
      ph: "X",
      ts: lives.start[k] as number,
      dur: (lives.end[k] as number) - (lives.start[k] as number),
      pid: 0,
      tid: lives.worker[k] as number,
      args: { ...(module === "" ? {} : { module }), waited: Math.max(0, (lives.start[k] as number) - (lives.ready[k] as number)), critical: lives.critical[k] === 1 },
    };
  });
  return { traceEvents: [...named, ...rows], displayTimeUnit: "ns" };
}

export interface Flame {
  name: string;
  /** Microseconds in it and in all below. */
  micros: number;
  inside: Flame[];
}

/** Time by pass, module and operation. */
export function flameOf(model: Model, lives: Lives): Flame {
  const root: Flame = { name: model.trace.meta.title, micros: 0, inside: [] };
  const known = new Map<Flame, Map<string, Flame>>();
  const below = (flame: Flame, name: string) => {
    let names = known.get(flame);
    if (names === undefined) known.set(flame, (names = new Map<string, Flame>()));
    let found = names.get(name);
    if (found === undefined) {
      found = { name, micros: 0, inside: [] };
      names.set(name, found);
      flame.inside.push(found);
    }
    return found;
  };
  const paths = new Map<number, string[]>();
  for (let k = 0; k < lives.count; k++) {
    const node = lives.node[k] as number;
    const scope = node < 0 ? -1 : (model.trace.nodes.scope[node] as number);
    let path = paths.get(scope);
    if (path === undefined) paths.set(scope, (path = scope < 0 ? [] : scopePath(model, scope)));
    const micros = (lives.end[k] as number) - (lives.start[k] as number);
    let at = root;
    at.micros += micros;
    for (const name of [lives.backward[k] === 1 ? "backward" : "forward", ...path, node < 0 ? lives.kind(k) : opOf(model, node)]) {
      at = below(at, name);
      at.micros += micros;
    }
  }
  return root;
}

/** `loss;forward;blocks;0;tanh 12.5`: a line for each stack that ends somewhere, in microseconds. */
export function collapsed(flame: Flame): string {
  const lines: string[] = [];
  const visit = (at: Flame, path: string) => {
    const stack = `${path}${at.name.replace(/;/g, ",")}`;
    const own = at.micros - at.inside.reduce((sum, f) => sum + f.micros, 0);
    if (at.inside.length === 0 || own > 1e-6 * at.micros) lines.push(`${stack} ${Number((at.inside.length === 0 ? at.micros : own).toPrecision(9))}`);
    for (const f of at.inside) visit(f, `${stack};`);
  };
  visit(flame, "");
  return `${lines.join("\n")}\n`;
}

export interface FlameBox {
  flame: Flame;
  x: number;
  width: number;
  depth: number;
}

/** Boxes in shares of the whole, wide ones only; each level in the order of the run. */
export function flameBoxes(flame: Flame, least = 0.001): FlameBox[] {
  const out: FlameBox[] = [];
  const visit = (at: Flame, x: number, depth: number) => {
    const width = at.micros / Math.max(1e-9, flame.micros);
    if (width < least) return;
    out.push({ flame: at, x, width, depth });
    let left = x;
    for (const f of at.inside) {
      visit(f, left, depth + 1);
      left += f.micros / Math.max(1e-9, flame.micros);
    }
  };
  visit(flame, 0, 0);
  return out;
}

const ROW = 20;

const element = (name: string, content: string) => `<${name}>${content}</${name}>`;

/** A picture by itself, 1200 wide: the run on top, what is inside below it. */
export function flameSvg(flame: Flame): string {
  const boxes = flameBoxes(flame);
  const height = ROW * (Math.max(0, ...boxes.map(({ depth }) => depth)) + 1);
  const text = (s: string) => s.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const rects = boxes.map(({ flame: f, x, width, depth }) => {
    const wide = 1200 * width;
    const letters = Math.floor((wide - 8) / 7);
    const label = letters < 3 ? "" : `<text x="${(1200 * x + 4).toFixed(1)}" y="${depth * ROW + 14}">${text(f.name.length > letters ? `${f.name.slice(0, letters - 1)}…` : f.name)}</text>`;
    return `<g>${element("title", `${text(f.name)}, ${shownMicros(f.micros)}, ${(100 * width).toFixed(1)}%`)}<rect x="${(1200 * x).toFixed(1)}" y="${depth * ROW}" width="${Math.max(0.5, wide - 1).toFixed(1)}" height="${ROW - 1}" rx="2" fill="${["#f4d88a", "#f0c26a", "#eaa95a", "#e0915a"][depth % 4]}"/>${label}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 ${height}" width="1200" height="${height}" font-family="sans-serif" font-size="12">${rects.join("")}</svg>`;
}

/** Hands a text to the reader as a file. */
export function save(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
