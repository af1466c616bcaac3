/**
 * Parts of the bundle, loaded when they are first needed: what `import()` becomes in the built files (`parts.plugin.ts`).
 * A part is a script that defines itself under its name. A page by itself carries it compressed and makes a script of it,
 * which the page's policy knows by its hash; a notebook brings it beside the bundle; otherwise it lies beside the bundle's
 * own address.
 */
import { bytesOfBase64, gunzip } from "../trace/decode";

/** What a part takes from the bundle ("") and from other parts, by their names, and what makes it of them. */
type Part = readonly [needs: readonly string[], make: (...given: unknown[]) => object];

declare global {
  var wengertParts: Record<string, Part> | undefined;
}

const made = new Map<string, Promise<object>>();

/** The part of this name as a module. Bundles of several versions may share a page: `version` tells whose part it is. */
export function loadPart(name: string, version: string, bundle: () => object): Promise<object> {
  let found = made.get(name);
  if (found === undefined) {
    found = make(name, version, bundle);
    made.set(name, found);
    // What a lost connection broke may be there the next time.
    found.catch(() => made.delete(name));
  }
  return found;
}

async function make(name: string, version: string, bundle: () => object): Promise<object> {
  const defined = () => globalThis.wengertParts?.[`${name} ${version}`];
  if (defined() === undefined) await fetchPart(name);
  const part = defined();
  if (part === undefined) throw new Error(`${name} is not of this page's version: load the page again.`);
  const [needs, create] = part;
  return create(...(await Promise.all(needs.map((need) => (need === "" ? bundle() : loadPart(need, version, bundle))))));
}

async function fetchPart(name: string): Promise<void> {
  const script = document.createElement("script");
  const carried = document.querySelector(`script[type="application/wengert-part"][data-name="${name}"]`);
  if (carried !== null) {
    script.textContent = await gunzip(bytesOfBase64(carried.textContent ?? ""));
    document.head.append(script);
    return;
  }
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${name} could not be loaded.`));
    script.src = new URL(name, import.meta.url).href;
    document.head.append(script);
  });
}
