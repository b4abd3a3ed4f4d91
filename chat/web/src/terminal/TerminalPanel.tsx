// The terminals of a chat's sandbox: a tab for each, and the one that is shown. They run on without the page, so a reload
// finds them again.
import { Plus, X } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import { sentenceOf } from "../api/error";
import { closeTerminal, listTerminals, openTerminal } from "../api/terminals";
import { PanelFrame } from "../app/PanelFrame";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { IconButton } from "../ui/IconButton";
import { TerminalScreen } from "./TerminalScreen";
import "./terminal.css";

/** The size of a terminal until its screen has measured itself. */
const FIRST_SIZE = { cols: 80, rows: 24 };

type Props = { chatId: string; begun: boolean };

export function TerminalPanel({ chatId, begun }: Props) {
  const { ids, shown, error, busy, show, open, close } = useTerminals(chatId, begun);
  const [closing, setClosing] = useState<string | null>(null);
  return (
    <PanelFrame
      title={texts.terminals.title}
      testId="terminal:panel"
      wide
      tools={<IconButton label={texts.terminals.new} onClick={open} disabled={!begun || busy} testId="terminal:new"><Plus /></IconButton>}
    >
      {ids.length > 0 ? <Tabs ids={ids} shown={shown} onShow={show} onClose={setClosing} /> : null}
      <div className="panel-body terminal-body">
        {error ? <p className="note note-bad files-note" role="alert">{error}</p> : null}
        {shown ? <TerminalScreen key={shown} chatId={chatId} terminal={shown} /> : null}
        {ids.length === 0 && !error ? (
          <div className="panel-note">
            <p>{!begun ? texts.terminals.noChat : busy ? texts.loading : texts.terminals.none}</p>
            {begun && !busy ? <Button kind="main" className="empty-action" onClick={open}>{texts.terminals.new}</Button> : null}
          </div>
        ) : null}
      </div>
      {closing ? (
        <Confirm title={texts.terminals.closeTitle} text={texts.terminals.closeText} action={texts.close} run={() => close(closing)} onClose={() => setClosing(null)} />
      ) : null}
    </PanelFrame>
  );
}

type TabsProps = { ids: string[]; shown: string | null; onShow: (id: string) => void; onClose: (id: string) => void };

function Tabs({ ids, shown, onShow, onClose }: TabsProps) {
  return (
    <ul className="terminal-tabs" aria-label={texts.terminals.list}>
      {ids.map((id, at) => {
        const name = texts.terminals.name(at + 1);
        return (
          <li key={id} className={id === shown ? "terminal-tab terminal-shown" : "terminal-tab"}>
            <button type="button" aria-pressed={id === shown} onClick={() => onShow(id)} data-testid="terminal:tab">{name}</button>
            <IconButton label={texts.terminals.close(name)} onClick={() => onClose(id)} testId="terminal:close"><X /></IconButton>
          </li>
        );
      })}
    </ul>
  );
}

/** The terminals that run, oldest first. One that ends while it is shown stays until it is closed. */
function useTerminals(chatId: string, begun: boolean) {
  const [ids, setIds] = useState<string[]>([]);
  const [shown, setShown] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);

  useEffect(() => {
    if (!begun) return;
    let left = false;
    listTerminals(chatId).then(
      (found) => {
        if (left) return;
        const running = found.filter((terminal) => terminal.state === "running").map((terminal) => terminal.id).reverse();
        setIds(running);
        setShown(running.at(-1) ?? null);
        setBusy(false);
      },
      (thrown: unknown) => {
        if (left) return;
        setError(sentenceOf(thrown));
        setBusy(false);
      },
    );
    return () => {
      left = true;
    };
  }, [chatId, begun]);

  const open = useCallback(() => {
    setBusy(true);
    setError(null);
    openTerminal(chatId, FIRST_SIZE).then(
      (id) => {
        setIds((before) => [...before, id]);
        setShown(id);
        setBusy(false);
      },
      (thrown: unknown) => {
        setError(sentenceOf(thrown));
        setBusy(false);
      },
    );
  }, [chatId]);

  const close = async (id: string) => {
    await closeTerminal(chatId, id);
    const left = ids.filter((other) => other !== id);
    setIds(left);
    if (shown === id) setShown(left.at(-1) ?? null);
  };
  return { ids, shown, error, busy, show: setShown, open, close };
}
