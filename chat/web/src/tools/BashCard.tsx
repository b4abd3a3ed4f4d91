import { Maximize2, Square, SquareTerminal } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { announce } from "../ui/announce";
import { CopyButton } from "../ui/CopyButton";
import { duration } from "../ui/format";
import { IconButton } from "../ui/IconButton";
import { plainName, plainText } from "../ui/names";
import { Card, RunningBadge } from "./Card";
import { useElapsed } from "./elapsed";
import { exitMeaning, exitTone } from "./exit";
import { FullOutput } from "./FullOutput";
import { useLastOutput } from "./lastOutput";
import { type BashOutput, bashOutput, field, RUNNING, type ToolCall } from "./part";
import { Streams } from "./Streams";

const HEAD_CHARS = 140;
/** A finished card of an older message with more lines than this is initially collapsed. */
const FOLD_LINES = 24;
const NOTHING: BashOutput = { stdout: "", stderr: "", exitCode: RUNNING, stdoutTruncatedChars: 0, stderrTruncatedChars: 0 };

type Props = { call: ToolCall; live: boolean; latest: boolean; progress: string | null; onStop: (() => void) | null };

export function BashCard({ call, live, latest, progress, onStop }: Props) {
  const [full, setFull] = useState(false);
  const command = field(call.input, "command");
  const output = bashOutput(useLastOutput(call)) ?? NOTHING;
  const open = call.error === null && output.exitCode === RUNNING;
  const running = open && live;
  const elapsed = useElapsed(call.id, running);
  useEndAnnounced(running, output.exitCode);

  const badges = <Badges call={call} output={output} running={running} elapsed={elapsed} />;
  const lines = output.stdout.split("\n").length + output.stderr.split("\n").length;
  return (
    <>
      <Card
        kind="bash"
        icon={<SquareTerminal />}
        title={headOf(command) || texts.tools.terminal}
        hint={plainText(command)}
        state={running ? "running" : call.error === null ? "ok" : "error"}
        badges={badges}
        startOpen={latest || lines <= FOLD_LINES}
        keepOpen={running}
        actions={
          <>
            {running && onStop ? (
              <IconButton label={texts.tools.stop} onClick={onStop} tone="bad" className="filled" testId="tool:stop"><Square /></IconButton>
            ) : null}
            <CopyButton text={command} label={texts.tools.copyCommand} className="wide-only" />
            <IconButton label={texts.tools.full} onClick={() => setFull(true)} testId="tool:full"><Maximize2 /></IconButton>
          </>
        }
      >
        {needsWhole(command) ? <pre className="card-command">{plainText(command)}</pre> : null}
        {call.error !== null ? <p className="card-note tone-bad" role="alert">{call.error}</p> : null}
        {call.error === null || output.stdout || output.stderr ? <Streams output={output} running={running} progress={progress} /> : null}
        {call.error === null ? <Foot output={output} lost={open && !live} /> : null}
      </Card>
      {full ? (
        <FullOutput command={command} badges={badges} output={output} running={running} onStop={onStop} onClose={() => setFull(false)} />
      ) : null}
    </>
  );
}

function Badges({ call, output, running, elapsed }: { call: ToolCall; output: BashOutput; running: boolean; elapsed: number | null }) {
  if (call.calling && running) return <RunningBadge>{texts.tools.calling(call.name)}</RunningBadge>;
  if (running) return <RunningBadge>{texts.tools.running} <span aria-hidden>{duration(elapsed ?? 0)}</span></RunningBadge>;
  if (call.error !== null) return <span className="badge badge-bad">{texts.tools.failed}</span>;
  if (output.exitCode === RUNNING) return <span className="badge badge-warn">{texts.tools.stopped}</span>;
  return (
    <>
      {elapsed === null ? null : <span className="card-took">{duration(elapsed)}</span>}
      <span className={`badge badge-${exitTone(output.exitCode)}`} data-testid="tool:exit">{texts.tools.exit(output.exitCode)}</span>
    </>
  );
}

function Foot({ output, lost }: { output: BashOutput; lost: boolean }) {
  const timeoutMs = useServer((server) => server.info?.tools.commandTimeoutMs ?? 30_000);
  if (lost) return <p className="card-note">{texts.tools.unfinished}</p>;
  const meaning = exitMeaning(output.exitCode, timeoutMs);
  return meaning === null ? null : <p className="card-note">{meaning}</p>;
}

/** One line of the command, enough to recognise it. */
function headOf(command: string): string {
  const line = command.trim().replace(/\s*\n\s*/g, " ↵ ");
  return plainName(line.length > HEAD_CHARS ? `${line.slice(0, HEAD_CHARS)}…` : line);
}

/** The header clips a long command, so the full command is shown above its output. */
function needsWhole(command: string): boolean {
  return command.includes("\n") || command.length > 72;
}

function useEndAnnounced(running: boolean, exitCode: number): void {
  const before = useRef(running);
  useEffect(() => {
    if (before.current === running) return;
    before.current = running;
    announce(running ? texts.tools.running : exitCode === RUNNING ? texts.tools.stopped : texts.tools.exit(exitCode));
  }, [running, exitCode]);
}
