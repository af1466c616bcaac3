export function LessonLeft() {
  return <aside class="wg-left" aria-label="Overview" />;
}
