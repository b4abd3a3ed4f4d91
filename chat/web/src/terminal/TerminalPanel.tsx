// The terminals of a chat's sandbox: a tab for each, and the one that is shown. They run on without the page, so a reload
// finds them again.
import { Plus, X } from "lucide-react";
import { useEffect, useState } from "react";
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

/** A terminal and its number in this panel, which stays the same when others are closed. */
type Numbered = { id: string; number: number };

type Props = { chatId: string; begun: boolean };

export function TerminalPanel({ chatId, begun }: Props) {
  const { terminals, shown, error, busy, show, open, close, reload } = useTerminals(chatId, begun);
  const [closing, setClosing] = useState<Numbered | null>(null);
  return (
    <PanelFrame
      title={texts.terminals.title}
      testId="terminal:panel"
      wide
      tools={<IconButton label={texts.terminals.new} onClick={open} disabled={!begun || busy} testId="terminal:new"><Plus /></IconButton>}
    >
      {terminals.length > 0 ? <Tabs terminals={terminals} shown={shown} onShow={show} onClose={setClosing} /> : null}
      <div className="panel-body terminal-body">
        {error ? (
          <p className="note note-bad files-note" role="alert">{error} <Button onClick={reload}>{texts.retry}</Button></p>
        ) : null}
        {shown ? <TerminalScreen key={shown} chatId={chatId} terminal={shown} /> : null}
        {terminals.length === 0 && !error ? (
          <div className="panel-note">
            <p>{!begun ? texts.terminals.noChat : busy ? texts.loading : texts.terminals.none}</p>
            {begun && !busy ? <Button kind="main" className="empty-action" onClick={open}>{texts.terminals.new}</Button> : null}
          </div>
        ) : null}
      </div>
      {closing ? (
        <Confirm
          title={texts.terminals.closeTitle(texts.terminals.name(closing.number))}
          text={texts.terminals.closeText}
          action={texts.close}
          run={() => close(closing.id)}
          onClose={() => setClosing(null)}
        />
      ) : null}
    </PanelFrame>
  );
}

type TabsProps = { terminals: Numbered[]; shown: string | null; onShow: (id: string) => void; onClose: (terminal: Numbered) => void };

function Tabs({ terminals, shown, onShow, onClose }: TabsProps) {
  return (
    <ul className="terminal-tabs" aria-label={texts.terminals.list}>
      {terminals.map((terminal) => {
        const { id, number } = terminal;
        const name = texts.terminals.name(number);
        return (
          <li key={id} className={id === shown ? "terminal-tab terminal-shown" : "terminal-tab"}>
            <button type="button" aria-pressed={id === shown} onClick={() => onShow(id)} data-testid="terminal:tab">{name}</button>
            <IconButton label={texts.terminals.close(name)} onClick={() => onClose(terminal)} testId="terminal:close"><X /></IconButton>
          </li>
        );
      })}
    </ul>
  );
}

type Tabbed = { terminals: Numbered[]; shown: string | null };

/** The terminals that run, oldest first. One that ends while it is shown stays until it is closed. */
function useTerminals(chatId: string, begun: boolean) {
  const [{ terminals, shown }, setTabbed] = useState<Tabbed>({ terminals: [], shown: null });
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    if (!begun) return;
    let left = false;
    const found = listTerminals(chatId).then(
      (listed) => {
        const running = listed.filter((terminal) => terminal.state === "running").reverse();
        const numbered = running.map(({ id }, at) => ({ id, number: at + 1 }));
        if (!left) setTabbed({ terminals: numbered, shown: numbered.at(-1)?.id ?? null });
      },
      (thrown: unknown) => {
        if (!left) setError(sentenceOf(thrown));
      },
    );
    void found.then(() => {
      if (!left) setBusy(false);
    });
    return () => {
      left = true;
    };
  }, [chatId, begun, attempt]);

  const begin = () => {
    setBusy(true);
    setError(null);
  };
  const open = () => {
    begin();
    const opened = openTerminal(chatId, FIRST_SIZE).then(
      (id) => setTabbed((now) => withNew(now, id)),
      (thrown: unknown) => setError(sentenceOf(thrown)),
    );
    void opened.then(() => setBusy(false));
  };
  const reload = () => {
    begin();
    setAttempt((before) => before + 1);
  };
  const close = async (id: string) => {
    await closeTerminal(chatId, id);
    setTabbed((now) => without(now, id));
  };
  const show = (id: string) => setTabbed((now) => ({ ...now, shown: id }));
  return { terminals, shown, error, busy, show, open, close, reload };
}

function withNew({ terminals }: Tabbed, id: string): Tabbed {
  const number = Math.max(0, ...terminals.map((terminal) => terminal.number)) + 1;
  return { terminals: [...terminals, { id, number }], shown: id };
}

function without({ terminals, shown }: Tabbed, id: string): Tabbed {
  const left = terminals.filter((terminal) => terminal.id !== id);
  return { terminals: left, shown: shown === id ? (left.at(-1)?.id ?? null) : shown };
}
