/** Which rows of a long list are on screen. */

export const ROW = 36;
/** Rows made beyond both ends, so that scrolling shows no gaps. */
const BEYOND = 8;

export interface Range {
  readonly first: number;
  readonly end: number;
}

export function visibleRows(scroll: number, height: number, rows: number): Range {
  const first = Math.max(0, Math.min(rows, Math.floor(scroll / ROW)) - BEYOND);
  return { first, end: Math.min(rows, Math.ceil((scroll + height) / ROW) + BEYOND) };
}

/** Where to scroll so that a row is seen, with the least movement; unchanged where it is seen already. */
export function scrolledTo(row: number, scroll: number, height: number): number {
  const margin = Math.min(2 * ROW, height / 4);
  if (row * ROW - margin < scroll) return Math.max(0, row * ROW - margin);
  if ((row + 1) * ROW + margin > scroll + height) return (row + 1) * ROW + margin - height;
  return scroll;
}
