/** What a page asks for beyond a small graph: the survey of large runs, every further tab, find. */
import type { ComponentType } from "preact";
import { aboutStyle } from "./panels/lesson/about/style";
import { SurveyBottom } from "./panels/survey/bottom";
import { SurveyLeft } from "./panels/survey/left";
import { SurveyRight } from "./panels/survey/right";
import type { Tab } from "./state";
import styles from "./styles/later.css?inline";
import { DiffView } from "./views/diff";
import { KernelsView } from "./views/kernels";
import { MemoryView } from "./views/memory";
import { ParallelView } from "./views/parallel";
import { PathsView } from "./views/paths";
import { RanksView } from "./views/ranks";
import { SurveyGraph } from "./views/survey/survey";
import { TapeView } from "./views/tape";
import { WeightsView } from "./views/weights/weights";

export { Find } from "./panels/find";
export { SavePicture } from "./panels/save_picture";
export { SurveyBottom, SurveyLeft, SurveyRight };

export const css: string = aboutStyle + styles;

/** The Play tab is a part of its own. */
export const VIEWS: Record<Exclude<Tab, "play">, ComponentType> = {
  graph: SurveyGraph,
  tape: TapeView,
  paths: PathsView,
  memory: MemoryView,
  parallel: ParallelView,
  kernels: KernelsView,
  ranks: RanksView,
  weights: WeightsView,
  diff: DiffView,
};
