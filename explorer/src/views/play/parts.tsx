/** Small parts that the playground's views share. */
import type { ComponentChildren } from "preact";

export function Card({ title, aside, wide, children }: { title: string; aside?: ComponentChildren; wide?: boolean; children: ComponentChildren }) {
  return (
    <section class={`wg-play-card${wide ? " is-wide" : ""}`} aria-label={title}>
      <h2>
        {title}
        {aside !== undefined && <small>{aside}</small>}
      </h2>
      {children}
    </section>
  );
}
