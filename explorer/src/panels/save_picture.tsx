/** Asks what of the picture is to be saved, and in which format. */
import { useRef } from "preact/hooks";
import { paint } from "../draw/canvas";
import { fitted, type DisplayList, type View } from "../draw/display";
import { svg } from "../draw/svg";
import { surveyList } from "../draw/survey_scene";
import { reachable } from "../fold/open";
import { useStore, type Store } from "../state";
import { shownPicture, type Shown } from "../views/graph/canvas";
import { insideOf } from "../views/survey/scope_graph";
import { Dialog } from "./dialog";

/** Pixels of a PNG for each unit of the picture, and at most so many along an edge, which every browser draws. */
const [DENSITY, LONGEST] = [2, 12_000];
/** The whole graph of a large run is drawn in rows about as wide as a page's. */
const WIDE = 1400;

const MARGIN = 16;

export function SavePicture() {
  const store = useStore();
  // What is on the screen when this is opened; the dialog changes nothing of it.
  const shown = useRef(shownPicture()).current;
  const close = () => {
    store.saving.value = false;
  };
  const name = (store.model.value.trace.meta.title || "graph").replace(/[^\p{L}\p{N}_.-]+/gu, "-").replace(/^-+|-+$/g, "") || "graph";
  const save = async (whole: boolean, format: "svg" | "png") => {
    if (shown === null) return;
    const list = whole ? wholeList(store, shown) : shown.list;
    const view = whole ? undefined : shown.view;
    const blob = format === "svg" ? new Blob([svg(list, { palette: shown.palette, title: shown.label, view })], { type: "image/svg+xml" }) : await png(list, shown, view);
    if (blob !== null) download(blob, `${name}.${format}`);
    close();
  };
  const row = (whole: boolean, told: string) => (
    <p class="wg-save-row">
      <span>{told}</span>
      <button class="wg-button" type="button" aria-label={`${told} as SVG`} onClick={() => void save(whole, "svg")}>
        SVG
      </button>
      <button class="wg-button" type="button" aria-label={`${told} as PNG`} onClick={() => void save(whole, "png")}>
        PNG
      </button>
    </p>
  );
  return (
    <Dialog label="Save the picture" close={close}>
      <div class="wg-help">
        <h2>Save the picture</h2>
        {shown === null ? (
          <p>There is no graph on the screen.</p>
        ) : (
          <>
            {row(false, "What is shown")}
            {row(true, "The whole graph")}
            <p class="wg-muted">It has the colours of the page. In Python, graph.save("model.pdf") writes a PDF.</p>
          </>
        )}
        <button class="wg-button" type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

/** A small graph is all on its canvas; of a large one what is open is drawn, from the whole run down. */
function wholeList(store: Store, shown: Shown): DisplayList {
  if (store.small.value) return shown.list;
  const model = store.model.value;
  return surveyList({ ...insideOf(model, 0, reachable(model, store.open.value), WIDE, new Map()), hulls: [], loops: [], handles: false });
}

function png(list: DisplayList, { palette }: Shown, view: View | undefined): Promise<Blob | null> {
  const { width, height } = view ?? { width: list.bounds.width + 2 * MARGIN, height: list.bounds.height + 2 * MARGIN };
  const ratio = Math.min(DENSITY, LONGEST / Math.max(width, height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  const context = canvas.getContext("2d");
  if (context === null) return Promise.resolve(null);
  context.fillStyle = palette.canvas;
  context.fillRect(0, 0, canvas.width, canvas.height);
  paint(context, list, view ?? fitted(list.bounds, width, height, MARGIN, 1), palette, ratio);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
