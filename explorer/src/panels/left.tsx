import { useStore } from "../state";
import { SurveyLeft } from "./survey/left";
import { LessonLeft } from "./lesson/left";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Left() {
  return useStore().small.value ? <LessonLeft /> : <SurveyLeft />;
}
