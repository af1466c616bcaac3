/**
 * Makes parts of a build's chunks. The entry, with all that it needs at once, stays an ES module, which a page can hold
 * inside itself. Every other chunk, which is one because something is imported where it is needed, becomes a script that
 * defines a function of what it imports: it can be carried as text and needs no address. `src/hosts/load.ts` runs them, and
 * `parts.json` says which parts each of them needs.
 */
import type { Plugin, Rolldown } from "vite";

type Chunk = Rolldown.OutputChunk;
type Ast = ReturnType<Rolldown.PluginContext["parse"]>;
type Statement = Ast["body"][number];
type Parse = (code: string) => Ast;

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** An exported name, and what it is called inside. */
type Names = readonly (readonly [name: string, local: string])[];

/** What code calls the loader and the function that gives the bundle's exports to parts; no minifier gives such names. */
const LOAD = "loadPart$";
const EXPORTS = "exports$";

export function parts(): Plugin {
  return {
    name: "wengert-parts",
    async generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      const entry = chunks.find(({ isEntry }) => isEntry);
      if (entry === undefined || entry.imports.length > 0) this.error("a build whose entry is not one chunk");
      const version = await hashOf(chunks.map(({ fileName, code }) => `${fileName}\0${code}`).sort());
      const parse = (code: string) => this.parse(code);
      const needs: Record<string, string[]> = {};
      for (const chunk of chunks.filter((made) => made !== entry)) {
        chunk.code = partOf(chunk, entry.fileName, version, parse);
        needs[chunk.fileName] = chunk.imports.filter((name) => name !== entry.fileName).sort();
      }
      entry.code = withLoader(entry, version, parse);
      const source = `${JSON.stringify(Object.fromEntries(Object.entries(needs).sort()), null, 2)}\n`;
      this.emitFile({ type: "asset", fileName: "parts.json", source });
    },
  };
}

async function hashOf(texts: readonly string[]): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(texts.join("\0")));
  return [...new Uint8Array(digest).subarray(0, 6)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The entry, and in it the function that gives its exports to parts. */
function withLoader(entry: Chunk, version: string, parse: Parse): string {
  const ast = parse(entry.code);
  const given = ast.body.flatMap((statement) => exportsOf(statement, entry));
  const load = given.find(([name]) => name === "loadPart")?.[1];
  if (load === undefined) throw new Error(`${entry.fileName} does not export loadPart`);
  const code = applied(entry.code, loadingOf(ast, entry.code, load, version)).trimEnd();
  return `${code}\nfunction ${EXPORTS}(){return{${objectOf(given)},${LOAD}:${load},${EXPORTS}}}\n`;
}

function partOf(chunk: Chunk, entry: string, version: string, parse: Parse): string {
  const { code, fileName } = chunk;
  const ast = parse(code);
  const needs: string[] = [];
  const parameters: string[] = [];
  const gone: Edit[] = [];
  for (const statement of ast.body) {
    const { type, start, end } = statement;
    if (type === "ImportDeclaration") {
      const from = statement.source.value.replace(/^\.\//, "");
      needs.push(from === entry ? "" : from);
      parameters.push(`{${objectOf(importsOf(statement, chunk))}}`);
    } else if (!type.startsWith("Export")) continue;
    gone.push({ start, end, text: "" });
  }
  const loading = loadingOf(ast, code, LOAD, version);
  if (loading.length > 0) {
    needs.push("");
    parameters.push(`{${LOAD},${EXPORTS}}`);
  }
  const body = applied(code, [...gone, ...loading]).trim();
  const given = objectOf(ast.body.flatMap((statement) => exportsOf(statement, chunk)));
  const key = JSON.stringify(`${fileName} ${version}`);
  return `"use strict";(globalThis.wengertParts??={})[${key}]=[${JSON.stringify(needs)},(${parameters.join()})=>{${body}\nreturn{${given}}}];\n`;
}

/** The text of an object, or of a pattern that takes one apart. */
function objectOf(names: Names): string {
  return names.map(([name, local]) => `${/^[\w$]+$/.test(name) && !/^\d/.test(name) ? name : JSON.stringify(name)}:${local}`).join();
}

function importsOf(statement: Statement, { fileName }: Chunk): Names {
  if (statement.type !== "ImportDeclaration") return [];
  return statement.specifiers.map((specifier) => {
    if (specifier.type !== "ImportSpecifier") throw new Error(`${fileName} imports a chunk otherwise than by names`);
    return [nameOf(specifier.imported), specifier.local.name] as const;
  });
}

function exportsOf(statement: Statement, { fileName }: Chunk): Names {
  if (!statement.type.startsWith("Export")) return [];
  if (statement.type !== "ExportNamedDeclaration" || statement.declaration !== null || statement.source !== null) {
    throw new Error(`${fileName} exports otherwise than by names`);
  }
  return statement.specifiers.map(({ local, exported }) => [nameOf(exported), nameOf(local)] as const);
}

function nameOf(name: { type: string; name?: string; value?: unknown }): string {
  return name.type === "Literal" ? String(name.value) : (name.name as string);
}

/** Every `import("./part.js")`, as a call of the loader. */
function loadingOf(ast: Ast, code: string, load: string, version: string): Edit[] {
  const found: Edit[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node !== "object" || node === null) return;
    const { type, start, end } = node as { type?: string; start: number; end: number };
    if (type !== "ImportExpression") return Object.values(node).forEach(visit);
    const named = /^import\(\s*["'`]\.\/([^"'`]+)["'`]\s*\)$/.exec(code.slice(start, end));
    if (named === null) throw new Error(`${code.slice(start, end)} names no part`);
    found.push({ start, end, text: `${load}(${JSON.stringify(named[1])},${JSON.stringify(version)},${EXPORTS})` });
  };
  visit(ast.body);
  return found;
}

function applied(code: string, edits: readonly Edit[]): string {
  let out = code;
  for (const { start, end, text } of edits.toSorted((a, b) => b.start - a.start)) out = out.slice(0, start) + text + out.slice(end);
  return out;
}
