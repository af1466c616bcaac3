/** Where kernels stand: work per byte against work per second, under the best that this run reached (Williams et al. 2009). */
import type { KernelInfo } from "../../trace/types";

export interface Place {
  kernel: number;
  /** Operations per byte moved. */
  intensity: number;
  /** Operations per second. */
  rate: number;
  /** What the roof allows at this intensity; the kernel's share of it. */
  roof: number;
  share: number;
}

export interface Roofline {
  places: readonly Place[];
  /** Bytes and operations per second of the fastest kernel at either: measured, not the machine's data sheet. */
  bandwidth: number;
  compute: number;
}

/** Kernels without a time, without work or without traffic have no place. */
export function roofline(list: readonly KernelInfo[]): Roofline {
  const timed = list.flatMap((k, kernel) => (k.micros !== null && k.micros > 0 && k.bytes > 0 && k.flops > 0 ? [{ kernel, seconds: k.micros / 1e6, bytes: k.bytes, flops: k.flops }] : []));
  const bandwidth = timed.reduce((most, k) => Math.max(most, k.bytes / k.seconds), 0);
  const compute = timed.reduce((most, k) => Math.max(most, k.flops / k.seconds), 0);
  const places = timed.map(({ kernel, seconds, bytes, flops }) => {
    const intensity = flops / bytes;
    const roof = Math.min(compute, bandwidth * intensity);
    const rate = flops / seconds;
    return { kernel, intensity, rate, roof, share: rate / roof };
  });
  return { places, bandwidth, compute };
}

/** The innermost scope that holds all of some nodes. */
export function commonScope(parent: readonly number[], scopes: Iterable<number>): number {
  let path: number[] | null = null;
  for (const scope of scopes) {
    const up: number[] = [];
    for (let s = scope; s >= 0; s = parent[s] as number) up.unshift(s);
    if (path === null) path = up;
    else {
      let same = 0;
      while (same < path.length && same < up.length && path[same] === up[same]) same++;
      path = path.slice(0, same);
    }
  }
  return path?.[path.length - 1] ?? 0;
}
