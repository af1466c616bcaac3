/** A notebook cell with a kernel behind it, by anywidget's protocol: an object with `render`. */
import { mount } from "../mount";
import { unpack } from "../trace/decode";
import type { Host } from "./host";
import { Questions } from "./questions";

/** What anywidget hands over (its AFM specification). */
interface WidgetModel {
  get(key: string): unknown;
  send(message: unknown): void;
  on(event: "msg:custom", listener: (message: unknown) => void): void;
  off(event: "msg:custom", listener: (message: unknown) => void): void;
}

function widgetHost(model: WidgetModel): { host: Host; end: () => void } {
  const questions = new Questions((message) => model.send(message));
  const listen = (message: unknown) => void questions.take(message);
  model.on("msg:custom", listen);
  const { details, ask } = questions;
  return {
    host: { kind: "widget", details, ask },
    end: () => {
      model.off("msg:custom", listen);
      questions.end();
    },
  };
}

/** What a cell shows: a document, in an element of its own. */
export interface Shown {
  readonly model: WidgetModel;
  readonly el: HTMLElement;
}

export async function render({ model, el }: Shown): Promise<() => void> {
  el.style.height = `${Number(model.get("height"))}px`;
  const trace = await unpack(String(model.get("document")));
  const { host, end } = widgetHost(model);
  const mounted = mount(el, trace, host);
  return () => {
    end();
    mounted.unmount();
  };
}
