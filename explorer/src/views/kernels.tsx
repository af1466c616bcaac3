export function KernelsView() {
  return null;
}
