/** Questions to the process behind the page, or to what the page carries, as state of a component: asked on demand, forgotten with the node. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Answers } from "../hosts/host";
import { useStore, type Store } from "../state";

export type Asked<A> =
  | { readonly state: "unasked" | "waits" | "nothing" }
  | { readonly state: "there"; readonly answer: A }
  | { readonly state: "failed"; readonly reason: string };

export function useAsked<Q extends keyof Answers>(question: Q, node: number): [Asked<Answers[Q]>, () => void] {
  const store = useStore();
  const [asked, setAsked] = useState<Asked<Answers[Q]>>({ state: "unasked" });
  const now = useRef(0);
  useEffect(() => {
    setAsked({ state: "unasked" });
    return () => void now.current++;
  }, [question, node]);
  const ask = () => {
    const carried = carriedAnswer(store, question, node);
    if (carried !== null) return setAsked({ state: "there", answer: carried });
    const { host } = store;
    if (host.ask === undefined) return;
    const turn = ++now.current;
    const set = (next: Asked<Answers[Q]>) => {
      if (turn === now.current) setAsked(next);
    };
    setAsked({ state: "waits" });
    host.ask(question, node).then(
      (answer) => set(answer === null ? { state: "nothing" } : { state: "there", answer }),
      (reason: unknown) => set({ state: "failed", reason: reason instanceof Error ? reason.message : String(reason) }),
    );
  };
  return [asked, ask];
}

/** The answer that is in the document; null where there is none. */
function carriedAnswer<Q extends keyof Answers>(store: Store, question: Q, node: number): Answers[Q] | null {
  if (question !== "float64") return null;
  return (store.model.value.trace.replays?.[String(node)] ?? null) as Answers[Q] | null;
}

/** Whether anybody answers: the process, or the document for the places that errors name. */
export function canAsk(store: Store, question: keyof Answers, node: number): boolean {
  return store.host.ask !== undefined || carriedAnswer(store, question, node) !== null;
}
