import { expect, test } from "vitest";
import { followPointer } from "./keys";

/** Elements as far as keys ask about them. */
class Stub extends EventTarget {
  constructor(readonly name: string) {
    super();
  }
  closest(selector: string): Stub | null {
    return selector.includes("button") && this.name === "button" ? this : null;
  }
}

test("what the pointer has pressed is known until the keyboard goes on", () => {
  const page = new EventTarget();
  const before = globalThis.Element;
  globalThis.Element = Stub as unknown as typeof Element;
  try {
    const pointer = followPointer(page);
    const send = (type: string, target: Stub) => page.dispatchEvent(Object.defineProperty(new Event(type), "target", { value: target }));
    const [button, other] = [new Stub("button"), new Stub("button")];
    expect(pointer.at()).toBeNull();
    send("pointerdown", button);
    send("focusin", button);
    send("pointerup", button);
    expect(pointer.at()).toBe(button);
    // Tab leads to another button: space presses that.
    send("focusin", other);
    expect(pointer.at()).toBeNull();
    send("pointerdown", new Stub("canvas"));
    expect(pointer.at()).toBeNull();
    pointer.stop();
    send("pointerdown", button);
    expect(pointer.at()).toBeNull();
  } finally {
    globalThis.Element = before;
  }
});
