import { useState } from "react";
import { sentenceOf } from "../api/error";
import { texts } from "../texts";
import { Button } from "./Button";
import { Dialog } from "./Dialog";

type Props = { title: string; text: string; action: string; run: () => Promise<void>; onClose: () => void };

/** Asks for confirmation before a deletion. If the action fails, the dialog stays open and shows the reason. */
export function Confirm({ title, text, action, run, onClose }: Props) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await run();
      onClose();
    } catch (thrown) {
      setError(sentenceOf(thrown));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} testId="confirm">
      <p className="dialog-text">{text}</p>
      {error ? <p className="dialog-error" role="alert">{error}</p> : null}
      <footer className="dialog-foot">
        <Button onClick={onClose} data-focus>{texts.cancel}</Button>
        <Button kind="danger" disabled={busy} onClick={() => void confirm()} testId="confirm:yes">{action}</Button>
      </footer>
    </Dialog>
  );
}
