/** Questions to the process behind the page, as state of a component: asked on demand, forgotten with the node. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Answers } from "../hosts/host";
import { useStore } from "../state";

export type Asked<A> =
  | { readonly state: "unasked" | "waits" | "nothing" }
  | { readonly state: "there"; readonly answer: A }
  | { readonly state: "failed"; readonly reason: string };

export function useAsked<Q extends keyof Answers>(question: Q, node: number): [Asked<Answers[Q]>, () => void] {
  const { host } = useStore();
  const [asked, setAsked] = useState<Asked<Answers[Q]>>({ state: "unasked" });
  const now = useRef(0);
  useEffect(() => {
    setAsked({ state: "unasked" });
    return () => void now.current++;
  }, [question, node]);
  const ask = () => {
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
