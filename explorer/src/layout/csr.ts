/** Compressed sparse rows: the items of group g are `item[start[g]] ... item[start[g + 1] - 1]`. */
export interface Csr {
  readonly start: Int32Array;
  readonly item: Int32Array;
}

/** Groups the indices of `keys` by their key, keeping their order; negative keys belong to no group. */
export function groupBy(groups: number, keys: ArrayLike<number>): Csr {
  const start = new Int32Array(groups + 1);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (key >= 0) start[key + 1]! += 1;
  }
  for (let g = 0; g < groups; g++) start[g + 1]! += start[g]!;
  const item = new Int32Array(start[groups]!);
  const fill = start.slice();
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (key >= 0) item[fill[key]!++] = i;
  }
  return { start, item };
}

/** Stable sort of `items[from..to)` by ascending `key[item]`; merge sort, with insertion for short or nearly sorted runs. */
export function sortByKey(items: Int32Array, from: number, to: number, key: ArrayLike<number>, scratch: Int32Array): void {
  const count = to - from;
  if (count <= 24) {
    for (let i = from + 1; i < to; i++) {
      const item = items[i]!;
      const k = key[item]!;
      let j = i - 1;
      while (j >= from && key[items[j]!]! > k) {
        items[j + 1] = items[j]!;
        j--;
      }
      items[j + 1] = item;
    }
    return;
  }
  const middle = from + (count >> 1);
  sortByKey(items, from, middle, key, scratch);
  sortByKey(items, middle, to, key, scratch);
  if (key[items[middle - 1]!]! <= key[items[middle]!]!) return;
  scratch.set(items.subarray(from, middle), 0);
  const left = middle - from;
  let i = 0;
  let j = middle;
  let out = from;
  while (i < left) {
    const a = scratch[i]!;
    if (j < to && key[items[j]!]! < key[a]!) items[out++] = items[j++]!;
    else {
      items[out++] = a;
      i++;
    }
  }
}
