/** What is at a point of the layout. */
import { distanceTo } from "./curves";
import type { DisplayList, HitArea, Target } from "./display";

/** The target at a point, or null. `slack` widens lines, in units of the layout: larger when zoomed out, or for fingers. */
export function targetAt(list: DisplayList, x: number, y: number, slack = 0): Target | null {
  let best: HitArea | null = null;
  for (const area of list.hits) {
    if (best !== null && area.level < best.level) continue;
    const room = area.points ? slack : 0;
    const { box } = area;
    if (x < box.x - room || y < box.y - room || x > box.x + box.width + room || y > box.y + box.height + room) continue;
    if (area.points && distanceTo(area.points, x, y) > (area.reach ?? 0) + room) continue;
    best = area;
  }
  return best?.target ?? null;
}
