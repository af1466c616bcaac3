/** The Graph tab: small graphs whole, larger ones as a strip of layers with a loupe. */
import { useStore } from "../../state";
import { LessonGraph } from "./lesson_graph";
import { SurveyGraph } from "../survey/survey";

export function GraphView() {
  return useStore().small.value ? <LessonGraph /> : <SurveyGraph />;
}
