/** What leads on from a run: a script that continues it in Python, and a link with all its settings. */
import { useState } from "preact/hooks";
import { Dialog } from "../../../panels/dialog";
import type { Frame } from "../messages";
import type { Play } from "../session";
import { pythonScript } from "./python";

export function Onward({ play, frame }: { play: Play; frame: Frame }) {
  const [copied, setCopied] = useState(false);
  const experiment = play.experiment.value;
  if (experiment === null || experiment.view === "script") return null;
  return (
    <p class="wg-play-onward">
      <button type="button" class="wg-button" onClick={() => play.send({ type: "state" })}>
        Continue in Python
      </button>
      <button
        type="button"
        class="wg-button"
        onClick={() => {
          void copyText(linkOf(play)).then(setCopied);
          setTimeout(() => setCopied(false), 2500);
        }}
      >
        {copied ? "Copied" : "Copy link"}
      </button>
      <ScriptDialog play={play} frame={frame} />
    </p>
  );
}

function linkOf(play: Play): string {
  const at = new URLSearchParams(location.hash.replace(/^#/, ""));
  for (const [name, value] of new URLSearchParams(play.link.value)) at.set(name, value);
  return `${location.href.replace(/#.*$/, "")}#${at.toString()}`;
}

/** Whether the text is on the clipboard now. Pages from files may not write there: then a selection is copied. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function ScriptDialog({ play, frame }: { play: Play; frame: Frame }) {
  const state = play.state.value;
  const experiment = play.experiment.value;
  if (state === null || experiment === null || state.run !== frame.run) return null;
  const text = pythonScript(experiment.name, experiment.title, frame.options, state);
  const close = () => (play.state.value = null);
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/x-python" }));
    link.download = "continue.py";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  return (
    <Dialog label="Continue in Python" close={close}>
      <div class="wg-play-onward-box">
        <h2>Continue in Python</h2>
        <p>
          It goes on from step {state.step} and gives the numbers that this page would. <code>pip install wengert</code>, then run it.
        </p>
        <textarea readOnly rows={16} value={text} aria-label="The script" spellcheck={false} wrap="off" />
        <p>
          <button type="button" class="wg-button" onClick={() => void copyText(text)}>
            Copy
          </button>
          <button type="button" class="wg-button" onClick={download}>
            Save as continue.py
          </button>
          <button type="button" class="wg-button" onClick={close}>
            Close
          </button>
        </p>
      </div>
    </Dialog>
  );
}
