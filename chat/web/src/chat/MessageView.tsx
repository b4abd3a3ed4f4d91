// One message. It is rendered again only if it has changed: while an answer arrives, only the last one.
import { Pencil, RotateCw } from "lucide-react";
import { memo, useState } from "react";
import { asSentence } from "../api/error";
import type { ChatMessage } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { texts } from "../texts";
import { type Part, toolCall } from "../tools/part";
import { ToolView } from "../tools/ToolView";
import { CopyButton } from "../ui/CopyButton";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { IconButton } from "../ui/IconButton";
import { plainText } from "../ui/names";
import { EditMessage } from "./EditMessage";
import { Reasoning } from "./Reasoning";
import { directCommand, isUnanswered, textOf } from "./words";

type Props = {
  message: ChatMessage;
  live: boolean;
  latest: boolean;
  progress: string | null;
  /** Nothing is in progress, so a message can be edited or answered again. */
  idle: boolean;
  onStop: (() => void) | null;
  onEdit: (messageId: string, text: string) => void;
  onAgain: (messageId?: string) => void;
  /** What answering again does. */
  again: string;
};

export const MessageView = memo(function MessageView(props: Props) {
  return props.message.role === "user" ? <UserMessage {...props} /> : <Answer {...props} />;
});

function UserMessage({ message, idle, onEdit }: Props) {
  const [editing, setEditing] = useState(false);
  const text = textOf(message);
  const command = directCommand(text);
  if (editing) {
    return (
      <EditMessage
        text={text}
        onCancel={() => setEditing(false)}
        onSave={(changed) => {
          setEditing(false);
          onEdit(message.id, changed);
        }}
      />
    );
  }
  return (
    <article className="message message-user" aria-label={texts.message.you} data-testid="message:user">
      <div className={`bubble ${command === null ? "" : "bubble-command"}`}>
        {command === null ? text : <><span className="prompt" aria-hidden>$</span><span>{plainText(command)}</span></>}
      </div>
      <div className="message-tools">
        <CopyButton text={text} label={texts.message.copy} />
        {idle ? <IconButton label={texts.message.edit} onClick={() => setEditing(true)}><Pencil /></IconButton> : null}
      </div>
    </article>
  );
}

function Answer({ message, live, latest, progress, idle, onStop, onAgain, again }: Props) {
  const text = textOf(message);
  const last = message.parts.length - 1;
  return (
    <article className="message message-answer" aria-label={texts.message.assistant} aria-busy={live} data-testid="message:assistant">
      {message.parts.map((part, index) => (
        <ErrorBoundary key={index} fallback={<p className="note note-bad">{texts.errors.part}</p>}>
          <PartView part={part} live={live} growing={live && index === last} latest={latest} progress={progress} onStop={onStop} />
        </ErrorBoundary>
      ))}
      {live && message.parts.every((part) => part.type === "step-start") ? <p className="waiting">{progress ?? texts.message.working}</p> : null}
      {!live && idle && !isUnanswered(message) ? (
        <div className={`message-tools ${latest ? "message-tools-shown" : ""}`}>
          {text ? <CopyButton text={text} label={texts.message.copy} /> : null}
          <IconButton label={again} onClick={() => onAgain(message.id)}><RotateCw /></IconButton>
        </div>
      ) : null}
    </article>
  );
}

type PartProps = { part: Part; live: boolean; growing: boolean; latest: boolean; progress: string | null; onStop: (() => void) | null };

function PartView({ part, live, growing, latest, progress, onStop }: PartProps) {
  const call = toolCall(part);
  if (call) return <ToolView call={call} live={live} latest={latest} progress={progress} onStop={onStop} />;
  switch (part.type) {
    case "text": return part.text ? <Markdown text={part.text} growing={growing} /> : null;
    case "reasoning": return <Reasoning text={part.text} growing={growing} />;
    case "data-failed": return <p className="note note-bad" role="status" data-testid="message:failed">{asSentence(part.data.text)}</p>;
    case "data-stopped": return <p className="note" role="status" data-testid="message:stopped">{asSentence(part.data.text)}</p>;
    case "file": return <p className="note">{texts.message.file(part.filename ?? part.mediaType)}</p>;
    default: return null;
  }
}
