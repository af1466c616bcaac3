/** The loop as it runs: its own lines, the one that comes next lit. */
import { useEffect, useState } from "preact/hooks";

export interface CodeProps {
  readonly title?: string;
  readonly lines: readonly string[];
  /** The line that a paused run stands before. */
  readonly lit: number;
  readonly playing: boolean;
  /** Steps a second. */
  readonly pace: number;
  readonly step: number;
}

/** Up to here lines can be followed with the eye. */
const FOLLOWED = 6;

export function Code({ title = "The loop, as it runs", lines, lit, playing, pace, step }: CodeProps) {
  const [running, setRunning] = useState(lit);
  const follows = playing && pace <= FOLLOWED && !matchMedia("(prefers-reduced-motion: reduce)").matches;
  useEffect(() => {
    if (!follows) return undefined;
    setRunning(0);
    const timer = setInterval(() => setRunning((line) => Math.min(lines.length - 1, line + 1)), 1000 / pace / lines.length);
    return () => clearInterval(timer);
  }, [follows, step, lines.length, pace]);
  const at = follows ? running : lit;
  return (
    <section class="wg-section">
      <h2>{title}</h2>
      <ol class="wg-play-code">
        {lines.map((line, i) => (
          <li key={i} class={i === at ? "is-lit" : ""} aria-current={i === at ? "step" : undefined}>
            <code>{line}</code>
          </li>
        ))}
      </ol>
    </section>
  );
}
