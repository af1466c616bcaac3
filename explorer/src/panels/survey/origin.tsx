/** What a document, such as an ONNX model, says of the node that something came from. */
import type { Origin } from "../../trace/types";
import { shownNumber } from "../../format";

export function OriginSection({ origin }: { origin: Origin | null }) {
  if (origin === null) return null;
  const { attributes = {}, program } = origin;
  return (
    <section class="wg-section wg-origin" aria-label="In the document">
      <h2>
        {origin.operator} <small>{origin.domain ?? "in the document"}</small>
      </h2>
      {origin.about !== undefined && <p class="wg-muted">{origin.about}</p>}
      <dl>
        {origin.name !== "" && <Entry name="name" value={origin.name} />}
        {Object.entries(attributes).map(([name, value]) => (
          <Entry key={name} name={name} value={written(value)} />
        ))}
        <Entry name="takes" value={origin.inputs.map((name) => name || "·").join(", ") || "nothing"} />
        <Entry name="gives" value={origin.outputs.filter((name) => name !== "").join(", ") || "nothing"} />
        {origin.doc !== undefined && <Entry name="note" value={origin.doc} />}
        {program !== undefined && <Entry name="exported from" value={`${program.file}:${program.line}, ${program.function}`} />}
      </dl>
      {program !== undefined && program.text !== "" && <pre class="wg-mono">{program.text}</pre>}
    </section>
  );
}

function Entry({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class="wg-mono">{value}</dd>
    </>
  );
}

export function written(value: unknown): string {
  if (typeof value === "number") return shownNumber(value, 6);
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  return String(value);
}
