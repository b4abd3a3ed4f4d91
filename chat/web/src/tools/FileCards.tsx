// Reading and writing one file: the path, the size, and the text on demand.
import { FilePen, FileText } from "lucide-react";
import { CodeText } from "../markdown/CodeText";
import { texts } from "../texts";
import { CopyButton } from "../ui/CopyButton";
import { plainName } from "../ui/names";
import { Card, RunningBadge } from "./Card";
import { field, numberField, type ToolCall } from "./part";

type Props = { call: ToolCall; live: boolean; latest: boolean };

/** Longer text is shown without colours, so that a large file renders quickly. */
const MAX_COLOURED_CHARS = 40_000;

export function ReadFileCard({ call, live }: Props) {
  const path = plainName(field(call.input, "path"));
  const content = field(call.output, "content");
  const notice = field(call.output, "notice");
  return (
    <Card
      kind="readFile"
      icon={<FileText />}
      title={path || texts.tools.files}
      hint={path}
      badges={<State call={call} live={live} done={range(call.input) ?? texts.tools.characters(content.length)} />}
      actions={content ? <CopyButton text={content} label={texts.tools.copyContent} /> : null}
      startOpen={false}
      state={stateOf(call)}
      tone={call.error === null ? undefined : "bad"}
    >
      <Body error={call.error} content={content} path={path} />
      {notice ? <p className="card-note">{notice}</p> : null}
    </Card>
  );
}

export function WriteFileCard({ call, live }: Props) {
  const path = plainName(field(call.input, "path"));
  const content = field(call.input, "content");
  return (
    <Card
      kind="writeFile"
      icon={<FilePen />}
      title={path || texts.tools.files}
      hint={path}
      badges={
        <>
          <span className="card-took">{texts.tools.characters(content.length)}</span>
          <State call={call} live={live} done={texts.tools.written} />
        </>
      }
      actions={content ? <CopyButton text={content} label={texts.tools.copyContent} /> : null}
      startOpen={false}
      state={stateOf(call)}
      tone={call.error === null ? undefined : "bad"}
    >
      <Body error={call.error} content={content} path={path} />
    </Card>
  );
}

function Body({ error, content, path }: { error: string | null; content: string; path: string }) {
  return (
    <>
      {error === null ? null : <p className="card-note tone-bad" role="alert">{error}</p>}
      {content ? (
        <div className="card-file" tabIndex={0} role="group" aria-label={path}>
          <CodeText code={content} language={content.length > MAX_COLOURED_CHARS ? "" : extension(path)} />
        </div>
      ) : null}
    </>
  );
}

function stateOf(call: ToolCall): "running" | "ok" | "error" {
  if (call.error !== null) return "error";
  return call.output === undefined ? "running" : "ok";
}

function State({ call, live, done }: { call: ToolCall; live: boolean; done: string }) {
  if (call.error !== null) return <span className="badge badge-bad">{texts.tools.failed}</span>;
  if (call.output !== undefined) return <span className="badge badge-ok">{done}</span>;
  if (!live) return <span className="badge badge-warn">{texts.tools.stopped}</span>;
  return <RunningBadge>{call.calling ? texts.tools.calling(call.name) : texts.tools.running}</RunningBadge>;
}

function range(input: unknown): string | null {
  const offset = numberField(input, "offset");
  const limit = numberField(input, "limit");
  if (offset === null && limit === null) return null;
  const from = Math.max(1, offset ?? 1);
  return limit === null ? texts.tools.fromLine(from) : texts.tools.lines(from, from + limit - 1);
}

export function extension(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  return dot < 0 ? name.toLowerCase() : name.slice(dot + 1).toLowerCase();
}
