export function PathsView() {
  return null;
}
