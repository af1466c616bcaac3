export function SurveyLeft() {
  return <aside class="wg-left" aria-label="Overview" />;
}
