export function Find() {
  return null;
}
