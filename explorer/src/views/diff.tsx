export function DiffView() {
  return null;
}
