export function LessonBottom() {
  return <section class="wg-bottom" aria-label="Clock" />;
}
