import { From, later } from "../parts";
import { useStore } from "../state";
import { LessonRight } from "./lesson/right";

/** Small scalar graphs get a lesson, everything else a survey. */
export function Right() {
  return useStore().small.value ? <LessonRight /> : <From part={later}>{({ SurveyRight }) => <SurveyRight />}</From>;
}
