/** The lines of the program that something came from, with the exact expression marked. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Model } from "../trace/model";
import type { Trace } from "../trace/types";

export interface SourceLine {
  number: number;
  before: string;
  marked: string;
  after: string;
}

const AROUND = 1;
/** Pixels beside what is marked. */
const MARGIN = 12;

/** The line of a span and the ones next to it; null where the document does not hold them. */
export function sourceLines(trace: Trace, span: number): { file: string; line: number; lines: SourceLine[] } | null {
  const { spans, files } = trace;
  const file = files[spans.file[span] ?? -1];
  if (file === undefined) return null;
  const [line0, line1, col0, col1] = [spans.line0, spans.line1, spans.col0, spans.col1].map((column) => column[span] as number) as [
    number,
    number,
    number,
    number,
  ];
  const lines: SourceLine[] = [];
  for (let number = line0 - AROUND; number <= line1 + AROUND; number++) {
    const text = lineOf(file.pieces, number);
    if (text === undefined) continue;
    const inside = number >= line0 && number <= line1;
    const from = inside ? (number === line0 ? col0 : indent(text)) : text.length;
    const to = inside ? (number === line1 ? col1 : text.length) : text.length;
    lines.push({ number, before: text.slice(0, from), marked: text.slice(from, to), after: text.slice(to) });
  }
  return lines.length === 0 ? null : { file: file.path, line: line0, lines: outdented(lines) };
}

function lineOf(pieces: readonly { line: number; text: string[] }[], number: number): string | undefined {
  for (const piece of pieces) {
    const text = piece.text[number - piece.line];
    if (text !== undefined) return text;
  }
  return undefined;
}

function indent(text: string): number {
  return text.length - text.trimStart().length;
}

/** Without the indentation that all lines share. */
function outdented(lines: SourceLine[]): SourceLine[] {
  const whole = (line: SourceLine) => line.before + line.marked + line.after;
  const shared = Math.min(...lines.filter((line) => whole(line).trim() !== "").map((line) => indent(whole(line))));
  if (!Number.isFinite(shared)) return lines;
  return lines.map((line) => ({
    ...line,
    before: line.before.slice(Math.min(shared, line.before.length)),
    marked: line.before.length < shared ? line.marked.slice(shared - line.before.length) : line.marked,
  }));
}

export function spanOf(model: Model, node: number): number {
  return model.trace.nodes.span[node] ?? -1;
}

export function Source({ trace, span, bad = false }: { trace: Trace; span: number; bad?: boolean }) {
  const found = sourceLines(trace, span);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // Of a line that is too long what is marked is seen, its beginning first.
    const mark = box.current?.querySelector("mark");
    if (box.current && mark) box.current.scrollLeft = Math.min(mark.offsetLeft - MARGIN, mark.offsetLeft + mark.offsetWidth + MARGIN - box.current.clientWidth);
  }, [trace, span]);
  if (found === null) return null;
  return (
    <pre class={`wg-source${bad ? " is-bad" : ""}`} aria-label={`${found.file}, line ${found.line}`}>
      <div class="wg-line-numbers">
        {found.lines.map((line) => (
          <div key={line.number} class={line.marked === "" ? "" : "is-marked"}>
            {line.number}
          </div>
        ))}
      </div>
      <div class="wg-source-lines" ref={box} tabIndex={0}>
        {found.lines.map((line) => (
          <div key={line.number} class={line.marked === "" ? "" : "is-marked"}>
            {line.before}
            {line.marked !== "" && <mark>{line.marked}</mark>}
            {line.after}
            {"\n"}
          </div>
        ))}
      </div>
    </pre>
  );
}

/** Where a span is, as "model.py:58"; "" where the document does not say. */
export function placeOf(trace: Trace, span: number): string {
  const file = trace.files[trace.spans.file[span] ?? -1];
  return file === undefined ? "" : `${file.path.split("/").pop()}:${trace.spans.line0[span]}`;
}
