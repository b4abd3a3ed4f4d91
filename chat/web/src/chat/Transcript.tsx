import { ArrowDown } from "lucide-react";
import { type RefObject, useEffect, useRef, useState } from "react";
import type { ChatMessage } from "../api/types";
import { texts } from "../texts";
import { PageEnd } from "../ui/stick";
import type { Live } from "./live";
import { MessageView } from "./MessageView";
import { directCommand, textOf } from "./words";

type Props = {
  messages: ChatMessage[];
  live: Live;
  onStop: () => void;
  onEdit: (messageId: string, text: string) => void;
  onAgain: (messageId?: string) => void;
  endRef: RefObject<PageEnd | null>;
};

export function Transcript({ messages, live, onStop, onEdit, onAgain, endRef }: Props) {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);
  useEffect(() => {
    if (!outer.current || !inner.current) return;
    const end = new PageEnd(outer.current, inner.current, setAway);
    endRef.current = end;
    return () => {
      endRef.current = null;
      end.close();
    };
  }, [endRef]);
  const last = messages.length - 1;
  const idle = !live.running && !live.settling;
  const waiting = live.running && messages[last]?.role === "user";
  return (
    <div className="transcript-outer">
      <div className="transcript" ref={outer} tabIndex={-1}>
        <div className="column messages" ref={inner}>
          {messages.map((message, index) => (
            <MessageView
              key={message.id}
              message={message}
              latest={index >= last - 1}
              live={live.running && index === last}
              progress={index === last ? (live.sandbox?.text ?? null) : null}
              idle={idle}
              onStop={live.running ? onStop : null}
              onEdit={onEdit}
              onAgain={onAgain}
              again={isCommand(messages[index - 1]) ? texts.message.runAgain : texts.message.regenerate}
            />
          ))}
          {waiting ? <Waiting text={live.sandbox?.text ?? texts.message.working} /> : null}
        </div>
      </div>
      {away ? (
        <button type="button" className="to-end" onClick={() => endRef.current?.toEnd()} aria-label={texts.message.latest} title={texts.message.latest}>
          <ArrowDown />
        </button>
      ) : null}
    </div>
  );
}

/** Its answer is what a command printed. */
function isCommand(question: ChatMessage | undefined): boolean {
  return question !== undefined && directCommand(textOf(question)) !== null;
}

function Waiting({ text }: { text: string }) {
  return (
    <p className="waiting">
      <span className="dots" aria-hidden><i /><i /><i /></span>
      {text}
    </p>
  );
}
