/** Where the neurons of a network stand: inputs at the left, one column for each layer, the result's picture at the right. */

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly side: number;
}

export interface NetworkLayout {
  /** By column and row; the first column is the inputs. */
  readonly columns: readonly (readonly Box[])[];
  readonly output: Box;
}

const MARGIN = 24;
/** Room above for the title and below for the legend. */
const TOP = 46;
const BOTTOM = 40;
const LARGEST = 54;
const NAME = 24;

export function networkLayout(inputs: number, widths: readonly number[], width: number, height: number): NetworkLayout {
  const counts = [inputs, ...widths];
  // On narrow screens the picture of the result stands below the network, and the legend takes two lines.
  const below = width < 560;
  const room = Math.max(0, height - TOP - (below ? 1.5 * BOTTOM : BOTTOM));
  const networkHeight = below ? room * 0.5 : room;
  const output = below
    ? square(MARGIN, TOP + networkHeight + 16, Math.max(0, Math.min(width - 2 * MARGIN, room * 0.5 - 16)))
    : square(0, 0, Math.min(room, Math.max(200, width * 0.42)));
  const placed = below ? { ...output, x: (width - output.side) / 2 } : { ...output, x: width - MARGIN - output.side, y: TOP + (room - output.side) / 2 };
  const free = (below ? width : placed.x - MARGIN) - 2 * MARGIN;
  const pitch = free / (counts.length - (below ? 1 : 0) || 1);
  const tallest = Math.max(...counts);
  const side = Math.max(10, Math.min(LARGEST, pitch * 0.6, (networkHeight / tallest) * 0.8));
  const columns = counts.map((count, c) => {
    // Inputs have their names above them.
    const step = Math.min(c === 0 ? Math.max(side * 1.5, side + NAME) : side * 1.5, networkHeight / count);
    const first = TOP + networkHeight / 2 - (step * (count - 1)) / 2;
    const x = below ? MARGIN + c * ((free - side) / Math.max(1, counts.length - 1)) : MARGIN + c * pitch;
    return Array.from({ length: count }, (_, r) => square(x, first + r * step - side / 2, side));
  });
  return { columns, output: placed };
}

function square(x: number, y: number, side: number): Box {
  return { x, y, side };
}

/** The curve from one box's right side to another's left side; `to` may name a height of its own. */
export function link(from: Box, to: Box, y = to.y + to.side / 2): string {
  const [x0, y0, x1] = [from.x + from.side, from.y + from.side / 2, to.x];
  const bend = (x1 - x0) * 0.5;
  return `M${x0.toFixed(1)} ${y0.toFixed(1)}C${(x0 + bend).toFixed(1)} ${y0.toFixed(1)} ${(x1 - bend).toFixed(1)} ${y.toFixed(1)} ${x1.toFixed(1)} ${y.toFixed(1)}`;
}
