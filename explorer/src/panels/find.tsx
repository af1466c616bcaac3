/** Find: a list that narrows while one types. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { search } from "../search";
import { reveal, useStore } from "../state";
import { Dialog } from "./dialog";

function edited(text: string, key: string): string {
  if (key === "Backspace") return text.slice(0, -1);
  return key.length === 1 ? text + key : text;
}

export function Find() {
  const store = useStore();
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const { hits, total, rows } = useMemo(() => search(store.model.value, query), [store.model.value, query]);
  const chosen = Math.min(at, hits.length - 1);
  const close = () => {
    store.searching.value = false;
  };
  const take = (i: number) => {
    const hit = hits[i];
    if (hit !== undefined) {
      store.found.value = { query, rows };
      reveal(store, hit.selection);
    }
    close();
  };
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const early = store.typed.value;
  // Before any further key can come: what is put off until the page is painted would overwrite it.
  useLayoutEffect(() => {
    if (early.length === 0) return;
    // Enter takes what was found by what had been typed before it, which is so once that has been searched for.
    const at = early.indexOf("Enter");
    const now = at === 0 ? 1 : at < 0 ? early.length : at;
    store.typed.value = early.slice(now);
    if (at === 0) take(chosen);
    else setQuery(early.slice(0, now).reduce(edited, query));
  }, [early]);
  const moves: Record<string, () => void> = {
    ArrowDown: () => setAt(Math.min(hits.length - 1, chosen + 1)),
    ArrowUp: () => setAt(Math.max(0, chosen - 1)),
    Enter: () => take(chosen),
  };
  return (
    <Dialog label="Find" close={close}>
      <input
        class="wg-find"
        type="text"
        role="combobox"
        placeholder="tanh, [8, 64], model.py:12, >1MB, float32, nan, dead, no gradient"
        aria-label="Find by module, name, operation, shape, line, size, dtype, or what is wrong"
        aria-expanded={hits.length > 0}
        aria-controls="wg-hits"
        aria-activedescendant={hits.length > 0 ? `wg-hit-${chosen}` : ""}
        value={query}
        autofocus
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const move = moves[event.key];
          if (move === undefined) return;
          event.preventDefault();
          move();
        }}
      />
      <ul id="wg-hits" class="wg-hits" role="listbox" aria-label="Found" ref={list}>
        {hits.map((hit, i) => (
          <li
            key={`${hit.selection.kind}${hit.selection.row}`}
            id={`wg-hit-${i}`}
            role="option"
            aria-selected={i === chosen}
            onClick={() => take(i)}
          >
            <b>{hit.title}</b>
            <span class="wg-muted">{hit.where}</span>
            <small class="wg-muted">{hit.more}</small>
          </li>
        ))}
      </ul>
      <p class="wg-hits-note wg-muted" role="status">
        {query === "" ? "↑ ↓ choose, Enter goes there and lights all that was found, F goes on to the next" : total > hits.length ? `${hits.length} of ${total} shown` : `${total} found`}
      </p>
    </Dialog>
  );
}
