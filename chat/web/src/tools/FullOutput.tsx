import { Square } from "lucide-react";
import type { ReactNode } from "react";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { CopyButton } from "../ui/CopyButton";
import { Dialog } from "../ui/Dialog";
import { plainText } from "../ui/names";
import type { BashOutput } from "./part";
import { Streams } from "./Streams";

type Props = { command: string; badges: ReactNode; output: BashOutput; running: boolean; onStop: (() => void) | null; onClose: () => void };

/** The output of one command in a large dialog. It is updated while the command runs. */
export function FullOutput({ command, badges, output, running, onStop, onClose }: Props) {
  return (
    <Dialog title={texts.tools.full} kind="wide" onClose={onClose} testId="tool:full-output">
      <div className="full">
        <div className="full-command">
          <pre tabIndex={0} aria-label={texts.tools.command}>{plainText(command)}</pre>
          {badges}
          <CopyButton text={command} label={texts.tools.copyCommand} />
          {running && onStop ? <Button kind="danger" onClick={onStop}><Square aria-hidden />{texts.stop}</Button> : null}
        </div>
        <Streams output={output} running={running} tall />
      </div>
    </Dialog>
  );
}
