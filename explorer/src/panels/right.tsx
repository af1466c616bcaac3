import { useStore } from "../state";
import { SurveyRight } from "./survey/right";
import { LessonRight } from "./lesson/right";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Right() {
  return useStore().small.value ? <LessonRight /> : <SurveyRight />;
}
