/** What the canvas shows, as a list for screen readers, and the last step as a live message. */
import { kindOf, nameOf, opOf, scopePath, text } from "../trace/model";
import { select, useStore, type Store } from "../state";
import { shownNumber } from "../format";

const MANY = 200;

export function describeNode(store: Store, node: number): string {
  const model = store.model.value;
  const op = model.trace.nodes.op[node] as number;
  const parts = [op < 0 ? `${kindOf(model, node)} ${nameOf(model, node)}` : opOf(model, node)];
  const value = store.numbers.value.value(node);
  const gradient = store.numbers.value.gradient(node);
  if (value !== null) parts.push(`value ${shownNumber(value)}`);
  if (gradient !== null) parts.push(`gradient ${shownNumber(gradient)}`);
  if (op >= 0) parts.push(model.trace.ops.pattern[op] ?? "");
  return parts.filter((part) => part !== "" && part !== "none").join(", ");
}

export function Mirror() {
  const store = useStore();
  const model = store.model.value;
  const last = store.last.value;
  const node = last >= 0 ? (model.trace.events.node[last] as number) : -1;
  const rows = Math.min(model.nodes, MANY);
  return (
    <div class="wg-hidden">
      <p aria-live="polite">{node >= 0 ? describeNode(store, node) : "Nothing has happened yet."}</p>
      <ul aria-label="Nodes">
        {Array.from({ length: rows }, (_, row) => (
          <li key={row}>
            <button type="button" tabIndex={-1} onClick={() => select(store, { kind: "node", row })}>
              {describeNode(store, row)}
            </button>
          </li>
        ))}
      </ul>
      {model.nodes > rows && (
        <ul aria-label="Modules">
          {model.childScopes[0]?.map((scope) => (
            <li key={scope}>{scopePath(model, scope).join(", ") || text(model, model.trace.scopes.name[scope])}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
