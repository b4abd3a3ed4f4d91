// One terminal on the page. The emulator is loaded when the first terminal is shown.
import { useEffect, useRef, useState } from "react";
import { sentenceOf } from "../api/error";
import { texts } from "../texts";
import type { Ended } from "./connection";

type Props = { chatId: string; terminal: string };

export function TerminalScreen({ chatId, terminal }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [status, setStatus] = useState<string | null>(texts.tty.loading);
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
      (thrown: unknown) => setStatus(sentenceOf(thrown)),
    );
    return () => {
      left = true;
      leave?.();
    };
  }, [chatId, terminal]);

  return (
    <div className="tty">
      {status ? <p className="tty-status" role="status">{status}</p> : null}
      <div ref={box} className="tty-screen" data-testid="terminal:screen" />
      {end ? (
        <p className="tty-status" role="status">{end === "gone" ? texts.tty.gone : texts.tty.ended(end.exitCode)}</p>
      ) : (
        <p className="tty-keys">{texts.tty.keys}</p>
      )}
    </div>
  );
}
