/** Path data of lanes, kept with the piece of edge that they belong to: a step of the clock changes colours, seldom shapes. */
import type { Segment } from "../layout/nested";
import type { Rect, Route } from "../layout/types";
import { arrowHead, beside, boxOf, pathData, pointsAlong, reversed, shortened } from "./curves";
import type { Metrics } from "./looks";

/** The value's lane beside the gradient's, the gradient's, or the value's where it has the edge to itself. */
export type LaneKind = "value" | "gradient" | "alone";

export interface SegmentArt {
  readonly line: string;
  readonly points: Float64Array;
  readonly box: Rect;
  lane(kind: LaneKind, width: number, arrow: boolean): { readonly line: string; readonly head: string };
}

/** Length of an arrow head on a hairline where lanes are `USUAL` apart from the middle. */
const HEAD: Readonly<Record<LaneKind, number>> = { value: 7, gradient: 9, alone: 7 };
const USUAL = 5;

const known = new WeakMap<Segment, { metrics: Metrics; art: SegmentArt }>();

export function artOf(segment: Segment, metrics: Metrics): SegmentArt {
  const found = known.get(segment);
  if (found?.metrics === metrics) return found.art;
  const art = made(segment.route, metrics);
  known.set(segment, { metrics, art });
  return art;
}

function made(route: Route, metrics: Metrics): SegmentArt {
  const lanes = new Map<string, { line: string; head: string }>();
  const routes = new Map<LaneKind, Route>();
  const routeOf = (kind: LaneKind): Route => {
    let found = routes.get(kind);
    if (!found) {
      found = kind === "alone" ? route : kind === "value" ? beside(route, -metrics.lane) : reversed(beside(route, metrics.lane));
      routes.set(kind, found);
    }
    return found;
  };
  return {
    line: pathData(route),
    points: pointsAlong(route),
    box: boxOf(route, metrics.lane + 6),
    lane(kind, width, arrow) {
      const key = `${kind}${arrow}${width.toFixed(1)}`;
      let found = lanes.get(key);
      if (!found) {
        const along = routeOf(kind);
        const length = (HEAD[kind] + width) * Math.max(0.7, metrics.lane / USUAL);
        found = arrow
          ? { line: pathData(shortened(along, length * 0.7)), head: arrowHead(along, length, length * 0.42) }
          : { line: pathData(along), head: "" };
        lanes.set(key, found);
      }
      return found;
    },
  };
}
