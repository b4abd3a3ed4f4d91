import { Wrench } from "lucide-react";
import { texts } from "../texts";
import { Card, RunningBadge } from "./Card";
import type { ToolCall } from "./part";

const MAX_JSON_CHARS = 20_000;

/** A tool without its own card: its input and output as JSON. */
export function OtherCard({ call, live }: { call: ToolCall; live: boolean }) {
  const running = call.output === undefined && call.error === null;
  return (
    <Card
      kind={call.name}
      icon={<Wrench />}
      title={call.name}
      badges={
        call.error !== null ? <span className="badge badge-bad">{texts.tools.failed}</span>
        : running && live ? <RunningBadge>{texts.tools.running}</RunningBadge> : null
      }
      startOpen={false}
      tone={call.error === null ? undefined : "bad"}
    >
      {call.error === null ? null : <p className="card-note tone-bad" role="alert">{call.error}</p>}
      <Json label={texts.tools.input} value={call.input} />
      {call.output === undefined ? null : <Json label={texts.tools.output} value={call.output} />}
    </Card>
  );
}

function Json({ label, value }: { label: string; value: unknown }) {
  return (
    <div className="stream">
      <div className="stream-head"><span className="stream-name">{label}</span></div>
      <pre className="card-json" tabIndex={0}>{(value === undefined ? "" : JSON.stringify(value, null, 2)).slice(0, MAX_JSON_CHARS)}</pre>
    </div>
  );
}
