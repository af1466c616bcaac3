/** Finding nodes, modules and source lines by their words. */
import { dtypeOf, kindOf, nameOf, opOf, scopePath, shapeOf, text, type Model } from "./trace/model";
import { shownShape } from "./format";
import type { Selection } from "./state";

export interface Hit {
  readonly selection: NonNullable<Selection>;
  readonly title: string;
  readonly where: string;
  readonly more: string;
}

const LIMIT = 60;

/** The first hits for a query, modules before nodes; every word of the query must occur in a hit. */
export function search(model: Model, query: string, limit = LIMIT): { hits: Hit[]; total: number } {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const hits: Hit[] = [];
  let total = 0;
  if (words.length === 0) return { hits, total };
  const keep = (haystack: string, hit: () => Hit) => {
    const low = haystack.toLowerCase();
    if (!words.every((word) => low.includes(word))) return;
    total++;
    if (hits.length < limit) hits.push(hit());
  };
  const { scopes, nodes } = model.trace;
  for (let row = 1; row < scopes.parent.length; row++) {
    const path = scopePath(model, row);
    keep(path.join("."), () => ({
      selection: { kind: "scope", row },
      title: text(model, scopes.name[row]),
      where: path.slice(0, -1).join(" › "),
      more: scopes.kind[row] ?? "",
    }));
  }
  // A node's scope is worded once for all nodes in it.
  const paths = new Map<number, string[]>();
  for (let row = 0; row < model.nodes; row++) {
    const scope = nodes.scope[row] as number;
    let path = paths.get(scope);
    if (path === undefined) paths.set(scope, (path = scopePath(model, scope)));
    const name = nameOf(model, row);
    const op = opOf(model, row);
    keep(`${path.join(".")}.${name} ${op} ${kindOf(model, row)}`, () => ({
      selection: { kind: "node", row },
      title: name === "" || name === op ? op : `${name} = ${op}`,
      where: (paths.get(scope) ?? []).join(" › "),
      more: `${dtypeOf(model, row)} ${shownShape(shapeOf(model, row))}`,
    }));
  }
  return { hits, total };
}
