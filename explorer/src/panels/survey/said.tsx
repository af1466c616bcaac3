/** Plain sentences with `code` in them. */
export function Said({ text }: { text: string }) {
  return <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>;
}

/** Name and number on one line. */
export function Fact({ name, children, tone = "" }: { name: string; children: preact.ComponentChildren; tone?: string }) {
  return (
    <div class="wg-fact">
      <span>{name}</span>
      <span class={`wg-mono ${tone}`}>{children}</span>
    </div>
  );
}
