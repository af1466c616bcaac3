import { useStore } from "../../state";
import { playOf } from "./session";

/** What runs behind the page. */
export function PlayTitle() {
  const store = useStore();
  const title = playOf(store).experiment.value?.title ?? "";
  return (
    <div class="wg-title">
      <span>playground</span>
      <span aria-hidden="true"> / </span>
      <b>{title.slice(0, 1).toLowerCase() + title.slice(1)}</b>
      <span class="wg-muted"> · live, running in {store.host.kind === "local" ? "this page" : "Python"}</span>
    </div>
  );
}
