import { useStore } from "../state";
import { SurveyBottom } from "./survey/bottom";
import { LessonBottom } from "./lesson/bottom";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Bottom() {
  return useStore().small.value ? <LessonBottom /> : <SurveyBottom />;
}
