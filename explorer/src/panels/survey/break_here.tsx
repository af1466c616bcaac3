/** The debugger at a line of the program: opened in the server's terminal, else the command that does it. */
import { useState } from "preact/hooks";
import type { Answers } from "../../hosts/host";
import { useStore } from "../../state";
import type { Asked } from "../asking";

interface Props {
  readonly command: string;
  readonly stop: Asked<Answers["break"]>;
}

export function BreakButton({ command, stop, ask }: Props & { ask: () => void }) {
  const { host } = useStore();
  const [copied, setCopied] = useState("");
  const copy = () => void navigator.clipboard?.writeText(command).then(() => setCopied(command));
  const live = host.kind === "server" && stop.state !== "failed" && stop.state !== "nothing";
  return (
    <button
      type="button"
      class="wg-button"
      title={live ? "Runs the script to this line, in the debugger, in the terminal that this page came from" : "Copies the command that runs the script to this line, in the debugger"}
      disabled={stop.state === "waits"}
      onClick={live ? ask : copy}
    >
      {live || copied !== command ? "Break here" : "Copied"}
    </button>
  );
}

/** What came of it; the command to type where no debugger was opened. */
export function BreakTold({ command, stop }: Props) {
  if (stop.state === "there") {
    return (
      <p role="status">
        The debugger goes to <span class="wg-mono">{stop.answer.at}</span>, in the terminal that this page came from.
      </p>
    );
  }
  return (
    <>
      {stop.state === "failed" && <p class="wg-muted">{stop.reason.split("\n")[0]} To be copied:</p>}
      <code class="wg-command">{command}</code>
    </>
  );
}
