/** What is worked out of something once, and kept for as long as that is. */
export function once<K extends object, V>(make: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, { readonly made: V }>();
  return (of) => {
    let found = known.get(of);
    if (found === undefined) known.set(of, (found = { made: make(of) }));
    return found.made;
  };
}
