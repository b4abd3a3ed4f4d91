import { Eye, EyeOff } from "lucide-react";
import { type SyntheticEvent, useState } from "react";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { IconButton } from "../ui/IconButton";
import { refreshServer } from "../server/store";
import { closeTokenDialog, saveToken, useAccess } from "./store";
import "./access.css";

export function TokenDialog() {
  const { token, remembered } = useAccess();
  const [draft, setDraft] = useState(token);
  const [remember, setRemember] = useState(remembered);
  const [shown, setShown] = useState(false);

  const save = async (event: SyntheticEvent) => {
    event.preventDefault();
    await saveToken(draft, remember);
    await refreshServer();
    if (useAccess.getState().check?.allowed) closeTokenDialog();
  };
  return (
    <Dialog title={texts.access.title} onClose={closeTokenDialog} testId="lan-admin:dialog">
      <form onSubmit={(event) => void save(event)}>
        <p className="dialog-text">{texts.access.text}</p>
        <div className="token-fields">
          <label htmlFor="lan-token">{texts.access.token}</label>
          <div className="token-row">
            <input
              id="lan-token"
              className="field mono"
              type={shown ? "text" : "password"}
              placeholder="REMCOCHAT_ADMIN_TOKEN"
              autoComplete="off"
              spellCheck={false}
              data-focus
              value={draft}
              onChange={(event) => setDraft(event.target.value)}
              data-testid="bash-tools:lan-admin-token"
            />
            <IconButton label={shown ? texts.access.hide : texts.access.show} onClick={() => setShown(!shown)}>
              {shown ? <EyeOff /> : <Eye />}
            </IconButton>
            <Button onClick={() => setDraft("")} disabled={!draft}>{texts.access.clear}</Button>
          </div>
          <label className="switch">
            <input type="checkbox" role="switch" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
            <span>
              {texts.access.remember}
              <small>{texts.access.rememberHint}</small>
            </span>
          </label>
          <Verification />
        </div>
        <footer className="dialog-foot">
          <Button onClick={closeTokenDialog}>{texts.cancel}</Button>
          <Button kind="main" type="submit" testId="lan-admin:save">{texts.access.save}</Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Verification() {
  const { token, check, checking, lastHeader } = useAccess();
  const admin = checking || !check ? "?" : check.allowed ? "allowed" : "denied";
  return (
    <div className={`token-status ${check && !checking ? (check.allowed ? "tone-ok" : "tone-warn") : ""}`} data-testid="lan-admin:status" role="status">
      <p>{checking ? texts.loading : check ? sentence(check.reason, check.retryAfterSeconds) : texts.access.states[token ? "unknown" : "none"]}</p>
      <p className="mono">x-remcochat-bash-tools-enabled={lastHeader ?? "?"}</p>
      <p className="mono">token={token ? "present" : "absent"}</p>
      <p className="mono">admin={admin}{check && !checking ? ` (${check.reason})` : ""}</p>
    </div>
  );
}

function sentence(reason: keyof typeof texts.access.reasons, retryAfterSeconds: number | null): string {
  return retryAfterSeconds === null ? texts.access.reasons[reason] : texts.errors.tooManyTries(retryAfterSeconds);
}
