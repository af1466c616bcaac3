/** Two graphs side by side, what they share at the same places, with the list of what changed. */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Target } from "../draw/display";
import { PALETTES } from "../draw/palette";
import { modelOf, opOf, scopePath, type Model } from "../trace/model";
import type { TraceDiff } from "../trace/types";
import { reveal, useStore } from "../state";
import { Picture } from "./graph/canvas";
import { Numbers } from "./diff/numbers_view";
import { commonLayout, sideOf, type Common } from "./diff/side";
import { unionOf } from "./diff/union";

export function DiffView() {
  const { diff } = useStore().model.value.trace;
  if (diff === undefined) {
    return (
      <div class="wg-view">
        <p class="wg-muted">The document holds one graph only.</p>
      </div>
    );
  }
  return <Compared diff={diff} />;
}

const SIGNS = { added: "+", removed: "−", changed: "≠" } as const;

function Compared({ diff }: { diff: TraceDiff }) {
  const store = useStore();
  const a = store.model.value;
  const b = useMemo(() => modelOf(diff.other), [diff]);
  const common = useMemo(() => commonLayout(a, b, unionOf(a, b, diff.edits)), [a, b, diff]);
  const chosen = useSignal(-1);
  const count = (kind: keyof typeof SIGNS) => diff.edits.filter((edit) => edit.kind === kind).length;
  const choose = (row: number) => {
    chosen.value = row;
    const node = common.union.nodes[row];
    if (node !== undefined && node.a >= 0) reveal(store, { kind: "node", row: node.a });
  };
  return (
    <div class="wg-diff">
      <header class="wg-view-head">
        <h2>
          {count("added")} added, {count("removed")} removed, {count("changed")} changed
        </h2>
        {common.union.hidden > 0 && <span class="wg-muted">{common.union.hidden.toLocaleString("en")} nodes far from any change are left out</span>}
      </header>
      <div class={`wg-diff-sides${common.layout.bounds.width > 2 * common.layout.bounds.height ? " is-stacked" : ""}`}>
        <SideView model={a} common={common} which="a" title={titleOf(a, "before")} chosen={chosen.value} choose={choose} />
        <SideView model={b} common={common} which="b" title={titleOf(b, "after")} chosen={chosen.value} choose={choose} />
      </div>
      <Numbers a={a} b={b} diff={diff} />
      <Edits diff={diff} a={a} b={b} common={common} chosen={chosen.value} choose={choose} />
    </div>
  );
}

function titleOf(model: Model, else_: string): string {
  return `${else_}: ${model.trace.meta.title}`;
}

interface SideProps {
  model: Model;
  common: Common;
  which: "a" | "b";
  title: string;
  chosen: number;
  choose: (row: number) => void;
}

function SideView({ model, common, which, title, chosen, choose }: SideProps) {
  const store = useStore();
  const side = useMemo(() => sideOf(model, common, which, chosen), [model, common, which, chosen]);
  const rowAt = (target: Target | null) => (target?.kind === "item" ? (side.rows[target.item] ?? -1) : -1);
  return (
    <figure class="wg-diff-side">
      <figcaption>{title}</figcaption>
      <div>
        <Picture
          list={side.list}
          palette={PALETTES[store.theme.value]}
          fitKey={common}
          focus={common.layout.bounds}
          label={`${title}, ${side.rows.length} nodes`}
          onPress={(target) => choose(rowAt(target))}
        />
      </div>
    </figure>
  );
}

interface EditsProps {
  diff: TraceDiff;
  a: Model;
  b: Model;
  common: Common;
  chosen: number;
  choose: (row: number) => void;
}

function Edits({ diff, a, b, common, chosen, choose }: EditsProps) {
  const rowOf = (edit: TraceDiff["edits"][number]) => common.union.nodes.findIndex((n) => n.a === edit.a && n.b === edit.b);
  const where = (edit: TraceDiff["edits"][number]) => {
    const [model, node] = edit.a >= 0 ? [a, edit.a] : [b, edit.b];
    return `${[...scopePath(model, model.trace.nodes.scope[node] as number), opOf(model, node)].join(".")}`;
  };
  return (
    <ol class="wg-edits" aria-label="What changed">
      {diff.edits.map((edit, i) => {
        const row = rowOf(edit);
        return (
          <li key={i}>
            <button type="button" class={`wg-edit is-${edit.kind}`} aria-pressed={row === chosen} onClick={() => choose(row)}>
              <b aria-label={edit.kind}>{SIGNS[edit.kind]}</b>
              <span>{edit.text}</span>
              <small class="wg-muted">{where(edit)}</small>
            </button>
          </li>
        );
      })}
    </ol>
  );
}
