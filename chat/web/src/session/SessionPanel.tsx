// A chat's sandbox: its state, usage, isolation and denied connections, with the actions park and delete.
import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { deleteSandbox, parkSandbox } from "../api/sandbox";
import { sentenceOf } from "../api/error";
import type { SandboxInfo } from "../api/types";
import { PanelFrame } from "../app/PanelFrame";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { IconButton } from "../ui/IconButton";
import { Facts } from "./Facts";
import { Network } from "./Network";
import { Posture } from "./Posture";
import { useSandbox } from "./sandbox";
import { Usage } from "./Usage";
import "./session.css";

type Props = { chatId: string; begun: boolean; turn: number };

export function SessionPanel({ chatId, begun, turn }: Props) {
  const { info, error, reload, setInfo } = useSandbox(chatId, begun, turn);
  return (
    <PanelFrame
      title={texts.session.title}
      testId="session:panel"
      tools={<IconButton label={texts.refresh} onClick={reload} disabled={!begun}><RefreshCw /></IconButton>}
    >
      <div className="panel-body">
        {error ? <p className="note note-bad files-note" role="alert">{error}</p> : null}
        {!begun ? <p className="panel-note">{texts.session.noChat}</p> : null}
        {begun && !info && !error ? <p className="panel-note">{texts.loading}</p> : null}
        {info?.state === "none" ? <p className="panel-note">{texts.session.none}</p> : null}
        {info && info.state !== "none" ? <Sandbox chatId={chatId} info={info} turn={turn} onInfo={setInfo} onChange={reload} /> : null}
      </div>
    </PanelFrame>
  );
}

type SandboxProps = { chatId: string; info: SandboxInfo; turn: number; onInfo: (info: SandboxInfo) => void; onChange: () => void };

function Sandbox({ chatId, info, turn, onInfo, onChange }: SandboxProps) {
  return (
    <div className="session">
      <StateLine info={info} />
      <Usage info={info} />
      <Facts info={info} />
      {info.posture ? <Posture posture={info.posture} network={info.network?.mode ?? null} /> : null}
      {info.provider === "docker" ? <Network chatId={chatId} turn={turn} /> : null}
      <Ends chatId={chatId} info={info} onInfo={onInfo} onChange={onChange} />
    </div>
  );
}

const TONES = { none: "", opening: "run", running: "ok", parked: "", lost: "bad", unreachable: "bad" } as const;

function StateLine({ info }: { info: SandboxInfo }) {
  return (
    <p className="session-state" data-testid="session:state" data-state={info.state}>
      <span className={`session-dot dot-${TONES[info.state]}`} aria-hidden />
      {texts.session.states[info.state]}
      {info.runningCommands ? <span className="badge badge-run">{texts.session.commands(info.runningCommands)}</span> : null}
    </p>
  );
}

function Ends({ chatId, info, onInfo, onChange }: Omit<SandboxProps, "turn">) {
  const [deleting, setDeleting] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const park = async () => {
    setBusy(true);
    setError(null);
    try {
      onInfo(await parkSandbox(chatId));
    } catch (thrown) {
      setError(sentenceOf(thrown));
    }
    setBusy(false);
  };
  const remove = async () => {
    await deleteSandbox(chatId);
    onChange();
  };
  return (
    <section className="session-ends">
      {error ? <p className="note note-bad" role="alert">{error}</p> : null}
      <div>
        <Button onClick={() => void park()} disabled={busy || info.state !== "running"} title={texts.session.parkHint} testId="session:park">{texts.session.park}</Button>
        <Button kind="danger" onClick={() => setDeleting(true)} testId="session:delete">{texts.session.delete}</Button>
      </div>
      <p className="quiet">{texts.session.parkHint}</p>
      {deleting ? (
        <Confirm title={texts.session.deleteTitle} text={texts.session.deleteText} action={texts.session.delete} run={remove} onClose={() => setDeleting(false)} />
      ) : null}
    </section>
  );
}
