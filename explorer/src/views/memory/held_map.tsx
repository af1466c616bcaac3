/** A map of what is alive: an area for each layer, in it an area for each buffer. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { reveal, useStore } from "../../state";
import { shownBytes } from "../../format";
import { BAND_OF_CLASS } from "./alive";
import { CLASS_WORDS, classOf, holderName, type Group } from "./holders";
import { treemap, type Tile } from "./treemap";

const HEAD = 17;
/** Buffers drawn one by one in each layer; the rest of it is one tile. */
const EACH = 24;

interface Cell extends Tile {
  buffers: readonly number[];
  bytes: number;
}

interface Area extends Tile {
  group: Group;
  cells: Cell[];
}

function areasOf(bytesOf: (buffer: number) => number, groups: readonly Group[], width: number, height: number): Area[] {
  return treemap(groups.map((g) => g.bytes), 0, 0, width, height).map((tile) => {
    const group = groups[tile.index] as Group;
    const named = tile.height > 44 && tile.width > 40;
    const top = named ? HEAD : 0;
    const single = group.buffers.slice(0, EACH).map((b) => [b]);
    const parts: readonly number[][] = group.buffers.length > EACH ? [...single, group.buffers.slice(EACH)] : single;
    const bytes = parts.map((part) => part.reduce((sum, b) => sum + bytesOf(b), 0));
    const cells = treemap(bytes, tile.x + 1, tile.y + top + 1, tile.width - 2, tile.height - top - 2).map((cell) => ({
      ...cell,
      buffers: parts[cell.index] as number[],
      bytes: bytes[cell.index] as number,
    }));
    return { ...tile, group, cells };
  });
}

export function HeldMap({ groups }: { groups: readonly Group[] }) {
  const store = useStore();
  const model = store.model.value;
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    const measure = () => setSize({ width: el.clientWidth, height: el.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    measure();
    return () => watch.disconnect();
  }, []);
  const areas = areasOf((b) => model.trace.buffers.bytes[b] as number, groups, size.width, size.height);
  const selected = store.selection.value;
  return (
    <div class="wg-map" ref={box}>
      <svg width={size.width} height={size.height} role="img" aria-label={`Held by ${groups.slice(0, 5).map((g) => `${g.label} ${shownBytes(g.bytes)}`).join(", ")}`}>
        {areas.map((area) => (
          <g key={area.group.label + area.index}>
            {area.cells.map((cell) => {
              const [first] = cell.buffers as [number];
              const node = model.trace.buffers.node[first] as number;
              const one = cell.buffers.length === 1;
              const band = BAND_OF_CLASS[model.trace.buffers.class[first] as number] ?? 3;
              const on = one && selected?.kind === "node" && selected.row === node;
              return (
                <rect
                  key={first}
                  class={`wg-tile wg-band-${band}${on ? " is-on" : ""}${one ? "" : " is-rest"}`}
                  x={cell.x}
                  y={cell.y}
                  width={Math.max(0, cell.width - 1)}
                  height={Math.max(0, cell.height - 1)}
                  onClick={() => (one && node >= 0 ? reveal(store, { kind: "node", row: node }) : reveal(store, { kind: "scope", row: area.group.scope }))}
                >
                  <title>{one ? `${holderName(model, first)}, ${CLASS_WORDS[classOf(model, first)]}, ${shownBytes(cell.bytes)}` : `${cell.buffers.length} more, ${shownBytes(cell.bytes)}`}</title>
                </rect>
              );
            })}
            <rect class="wg-area" x={area.x} y={area.y} width={Math.max(0, area.width - 1)} height={Math.max(0, area.height - 1)} rx="3" />
            {area.height > 44 && area.width > 40 && (
              <text x={area.x + 5} y={area.y + 13}>
                {fitted(area.group.label, shownBytes(area.group.bytes), area.width - 10)}
              </text>
            )}
          </g>
        ))}
      </svg>
    </div>
  );
}

function fitted(label: string, bytes: string, width: number): string {
  const room = Math.floor(width / 6.6);
  const both = `${label} · ${bytes}`;
  if (both.length <= room) return both;
  return label.length <= room ? label : `${label.slice(0, Math.max(1, room - 1))}…`;
}
