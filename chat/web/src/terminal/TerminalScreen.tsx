// One terminal on the page. The emulator is loaded when the first terminal is shown.
import { useEffect, useRef, useState } from "react";
import { texts } from "../texts";
import type { Ended } from "./connection";

type Props = { chatId: string; terminal: string };

export function TerminalScreen({ chatId, terminal }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [status, setStatus] = useState<string | null>(texts.terminals.loading);
  const [end, setEnd] = useState<Ended | null>(null);

  useEffect(() => {
    const place = box.current;
    if (!place) return;
    let left = false;
    let leave: (() => void) | null = null;
    import("./emulator").then(
      ({ showTerminal }) => {
        if (!left) leave = showTerminal(place, chatId, terminal, { status: setStatus, ended: setEnd });
      },
      () => setStatus(texts.terminals.notLoaded),
    );
    return () => {
      left = true;
      leave?.();
    };
  }, [chatId, terminal]);

  return (
    <div className="terminal-view">
      {status ? <p className="terminal-status" role="status">{status}</p> : null}
      <div ref={box} className="terminal-screen" data-testid="terminal:screen" />
      {end ? (
        <p className="terminal-status" role="status">{end === "gone" ? texts.terminals.gone : texts.terminals.ended(end.exitCode)}</p>
      ) : (
        <p className="terminal-keys">{texts.terminals.keys}</p>
      )}
    </div>
  );
}
