export function SurveyBottom() {
  return <section class="wg-bottom" aria-label="Clock" />;
}
