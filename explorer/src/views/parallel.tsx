export function ParallelView() {
  return null;
}
