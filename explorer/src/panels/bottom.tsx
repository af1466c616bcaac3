import { From, later } from "../parts";
import { useStore } from "../state";
import { LessonBottom } from "./lesson/bottom";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Bottom() {
  return useStore().small.value ? <LessonBottom /> : <From part={later}>{({ SurveyBottom }) => <SurveyBottom />}</From>;
}
