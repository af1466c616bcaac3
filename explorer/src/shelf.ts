/** Pages that carry several recordings: one is shown, and `recording=2` behind the # of the address says which. */
import { pageHost } from "./hosts/host";
import { mount, type Mounted } from "./mount";
import type { Tab } from "./state";
import type { Carried } from "./trace/page";

export async function shelved(element: HTMLElement, traces: readonly Carried[]): Promise<Pick<Mounted, "unmount">> {
  const show = async (at: number, tab: Tab): Promise<Mounted> => {
    const trace = await (traces[at] as Carried).unpack();
    if (traces.length === 1) return mount(element, trace);
    const names = traces.map(({ name }) => name);
    const shown = mount(element, trace, { ...pageHost, shelf: { names, at, open: (to, next) => void exchange(to, next) } }, tab);
    shown.store.further.value = () => (at === 0 ? "" : `recording=${at + 1}`);
    return shown;
  };
  const exchange = async (at: number, tab: Tab) => {
    const last = await shown;
    const theme = last.store.theme.peek();
    last.unmount();
    // What the address says of one recording says nothing of another.
    history.replaceState(null, "", location.pathname + location.search);
    shown = show(at, tab);
    (await shown).store.theme.value = theme;
  };
  const asked = Number(new URLSearchParams(location.hash.slice(1)).get("recording") ?? 1);
  let shown = show(traces[asked - 1] === undefined ? 0 : asked - 1, "graph");
  await shown;
  return { unmount: () => void shown.then((last) => last.unmount()) };
}
