// The two output panes of a command, which can be collapsed. A note above a pane states how much output the server
// did not keep, because that part is missing at the beginning.
import { ChevronDown, Scissors } from "lucide-react";
import { useId, useState } from "react";
import { OutputPane } from "../output/OutputPane";
import { texts } from "../texts";
import { CopyButton } from "../ui/CopyButton";
import type { BashOutput } from "./part";

type Props = { output: BashOutput; running: boolean; progress?: string | null; tall?: boolean };

export function Streams({ output, running, progress = null, tall = false }: Props) {
  const { stdout, stderr, stdoutTruncatedChars, stderrTruncatedChars } = output;
  if (!stdout && !stderr) {
    return <p className="card-note quiet">{running ? (progress ?? texts.tools.waiting) : texts.tools.empty}</p>;
  }
  // Both panes are reserved from the first output on, so that the later one does not move the earlier one.
  return (
    <>
      <Stream name="stdout" text={stdout} truncated={stdoutTruncatedChars} copyLabel={texts.tools.copyStdout} running={running} tall={tall} />
      <Stream name="stderr" text={stderr} truncated={stderrTruncatedChars} copyLabel={texts.tools.copyStderr} running={running} tall={tall} />
    </>
  );
}

type StreamProps = { name: "stdout" | "stderr"; text: string; truncated: number; copyLabel: string; running: boolean; tall: boolean };

function Stream({ name, text, truncated, copyLabel, running, tall }: StreamProps) {
  const [folded, setFolded] = useState(false);
  const paneId = useId();
  if (!text && truncated === 0) return <p className="stream-none"><span>{name}</span> {texts.tools.emptyStream}</p>;
  return (
    <div className={`stream stream-${name}`}>
      <div className="stream-head">
        <button
          type="button"
          className="stream-name"
          aria-expanded={!folded}
          aria-controls={paneId}
          aria-label={folded ? texts.tools.openStream(name) : texts.tools.foldStream(name)}
          onClick={() => setFolded(!folded)}
        >
          {name}
          <ChevronDown aria-hidden className={folded ? "" : "turned"} />
        </button>
        {truncated > 0 ? (
          <span className="stream-cut" data-testid="tool:truncated">
            <Scissors aria-hidden />
            {texts.tools.truncated(truncated)}
          </span>
        ) : null}
        <CopyButton text={text} label={copyLabel} />
      </div>
      <div id={paneId} className="stream-pane" hidden={folded}>
        <OutputPane output={text} label={name} live={running} tone={name} tall={tall} testId={`tool:${name}`} />
      </div>
    </div>
  );
}
