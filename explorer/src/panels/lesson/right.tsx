export function LessonRight() {
  return <aside class="wg-right" aria-label="Selection" />;
}
