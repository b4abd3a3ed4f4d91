// Code of the model: the code, what it printed, its figures and tables, its result or its error.
import { Braces, Square } from "lucide-react";
import { CodeText } from "../markdown/CodeText";
import { Markdown } from "../markdown/Markdown";
import { texts } from "../texts";
import { CopyButton } from "../ui/CopyButton";
import { duration } from "../ui/format";
import { IconButton } from "../ui/IconButton";
import { plainName, plainText } from "../ui/names";
import { Card, RunningBadge } from "./Card";
import { useElapsed } from "./elapsed";
import { useLastOutput } from "./lastOutput";
import { field, type ToolCall } from "./part";
import { type CodeError, PYTHON_RUNNING, type PythonOutput, pythonOutput, type Shown, type Table } from "./python";
import { Streams } from "./Streams";

const HEAD_CHARS = 140;

type Props = { call: ToolCall; live: boolean; latest: boolean; progress: string | null; onStop: (() => void) | null };

export function PythonCard({ call, live, latest, progress, onStop }: Props) {
  const code = field(call.input, "code");
  const output = pythonOutput(useLastOutput(call));
  const open = call.error === null && (output === null || output.status === PYTHON_RUNNING);
  const running = open && live;
  const elapsed = useElapsed(call.id, running);
  const failed = call.error !== null || output?.error != null;
  return (
    <Card
      kind="python"
      icon={<Braces />}
      title={headOf(code) || texts.tools.python}
      hint={plainText(code)}
      state={running ? "running" : failed ? "error" : "ok"}
      badges={<Badges call={call} output={output} running={running} elapsed={elapsed} />}
      startOpen={latest || output === null || output.displays.length > 0 || output.result !== null}
      keepOpen={running}
      actions={
        <>
          {running && onStop ? (
            <IconButton label={texts.tools.stopCode} onClick={onStop} tone="bad" className="filled" testId="tool:stop"><Square /></IconButton>
          ) : null}
          <CopyButton text={code} label={texts.tools.copyCode} className="wide-only" />
        </>
      }
    >
      {code.trim().includes("\n") ? <div className="card-code" tabIndex={0} role="group" aria-label={texts.tools.code}><CodeText code={code} language="py" /></div> : null}
      {call.error !== null ? <p className="card-note tone-bad" role="alert">{call.error}</p> : null}
      {output === null ? (running ? <p className="card-note quiet">{progress ?? texts.tools.waiting}</p> : null) : <Body output={output} running={running} progress={progress} />}
      {open && !live ? <p className="card-note">{texts.tools.unfinished}</p> : null}
    </Card>
  );
}

function Body({ output, running, progress }: { output: PythonOutput; running: boolean; progress: string | null }) {
  const { streams, displays, result, error, restarted, omittedDisplays } = output;
  const shows = displays.length > 0 || result !== null || error !== null;
  return (
    <>
      {restarted ? <p className="card-note quiet">{texts.tools.restarted}</p> : null}
      {streams.stdout || streams.stderr || !shows ? <Streams output={streams} running={running} progress={progress} /> : null}
      {displays.map((one, place) => <ShownView key={place} shown={one} />)}
      {omittedDisplays > 0 ? <p className="card-note">{texts.tools.omittedDisplays(omittedDisplays)}</p> : null}
      {result === null ? null : <ShownView shown={result} />}
      {error === null ? null : <ErrorView error={error} />}
    </>
  );
}

function ShownView({ shown }: { shown: Shown }) {
  switch (shown.kind) {
    case "image": return <figure className="shown-image"><img src={shown.source} alt={shown.alt || texts.tools.figure} data-testid="tool:figure" /></figure>;
    case "table": return <TableView table={shown.table} />;
    case "markdown": return <div className="shown-markdown"><Markdown text={shown.text} growing={false} /></div>;
    case "text": return <pre className="card-json" tabIndex={0} data-testid="tool:result">{plainText(shown.text)}</pre>;
  }
}

function TableView({ table }: { table: Table }) {
  return (
    <>
      <div className="markdown-table shown-table" tabIndex={0} role="group" aria-label={texts.tools.table} data-testid="tool:table">
        <table>
          <thead>{table.head.map((cells, row) => <tr key={row}>{cells.map((cell, column) => <th key={column}>{plainText(cell)}</th>)}</tr>)}</thead>
          <tbody>{table.rows.map((cells, row) => <tr key={row}>{cells.map((cell, column) => <td key={column}>{plainText(cell)}</td>)}</tr>)}</tbody>
        </table>
      </div>
      {table.omittedRows > 0 ? <p className="card-note">{texts.tools.omittedRows(table.omittedRows)}</p> : null}
    </>
  );
}

function ErrorView({ error }: { error: CodeError }) {
  const { name, value, traceback } = error;
  return (
    <div className="shown-error" role="alert" data-testid="tool:error">
      <p className="card-note tone-bad"><strong>{plainText(name)}</strong>{value ? `: ${plainText(value)}` : null}</p>
      {traceback ? <pre className="card-json" tabIndex={0}>{plainText(traceback)}</pre> : null}
    </div>
  );
}

function Badges({ call, output, running, elapsed }: { call: ToolCall; output: PythonOutput | null; running: boolean; elapsed: number | null }) {
  if (call.calling && running) return <RunningBadge>{texts.tools.calling(call.name)}</RunningBadge>;
  if (running) return <RunningBadge>{texts.tools.running} <span aria-hidden>{duration(elapsed ?? 0)}</span></RunningBadge>;
  if (call.error !== null) return <span className="badge badge-bad">{texts.tools.failed}</span>;
  if (output === null || output.status === PYTHON_RUNNING) return <span className="badge badge-warn">{texts.tools.stopped}</span>;
  return (
    <>
      {elapsed === null ? null : <span className="card-took">{duration(elapsed)}</span>}
      <span className={`badge badge-${toneOf(output.status)}`} data-testid="tool:status">{texts.tools.statuses[output.status] ?? plainName(output.status)}</span>
    </>
  );
}

function toneOf(status: string): "ok" | "warn" | "bad" {
  if (status === "ok") return "ok";
  return status === "timeout" || status === "interrupted" ? "warn" : "bad";
}

/** The first line of the code, enough to recognise it. */
function headOf(code: string): string {
  const line = code.trim().split("\n", 1)[0] ?? "";
  return plainName(line.length > HEAD_CHARS ? `${line.slice(0, HEAD_CHARS)}…` : line);
}
