export function SurveyRight() {
  return <aside class="wg-right" aria-label="Selection" />;
}
