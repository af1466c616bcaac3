export function TapeView() {
  return null;
}
