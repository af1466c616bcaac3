/** A notebook cell with a kernel behind it, by anywidget's protocol: an object with `render`. */
import { mount } from "../mount";
import { unpack } from "../trace/decode";
import type { Details } from "../trace/types";
import type { Host } from "./host";

/** What anywidget hands over (its AFM specification). */
interface WidgetModel {
  get(key: string): unknown;
  send(message: unknown): void;
  on(event: "msg:custom", listener: (message: unknown) => void): void;
  off(event: "msg:custom", listener: (message: unknown) => void): void;
}

interface Answer {
  readonly id: number;
  readonly details: Details | null;
}

function isAnswer(message: unknown): message is Answer {
  return typeof message === "object" && message !== null && "id" in message && "details" in message;
}

function widgetHost(model: WidgetModel): { host: Host; end: () => void } {
  const waiting = new Map<number, (details: Details | null) => void>();
  let last = 0;
  const listen = (message: unknown) => {
    if (!isAnswer(message)) return;
    waiting.get(message.id)?.(message.details);
    waiting.delete(message.id);
  };
  model.on("msg:custom", listen);
  const details = (node: number, gradient: boolean) =>
    new Promise<Details | null>((resolve) => {
      waiting.set(++last, resolve);
      model.send({ id: last, node, gradient });
    });
  return { host: { kind: "widget", details }, end: () => model.off("msg:custom", listen) };
}

export const widget = {
  async render({ model, el }: { model: WidgetModel; el: HTMLElement }): Promise<() => void> {
    el.style.height = `${Number(model.get("height"))}px`;
    const trace = await unpack(String(model.get("document")));
    const { host, end } = widgetHost(model);
    const mounted = mount(el, trace, host);
    return () => {
      end();
      mounted.unmount();
    };
  },
};
