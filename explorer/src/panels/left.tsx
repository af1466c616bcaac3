import { From, later } from "../parts";
import { useStore } from "../state";
import { LessonLeft } from "./lesson/left";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Left() {
  return useStore().small.value ? <LessonLeft /> : <From part={later}>{({ SurveyLeft }) => <SurveyLeft />}</From>;
}
