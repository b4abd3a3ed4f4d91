// One chat: its messages, the composer, and next to them its files, a terminal or its sandbox.
import { useChat } from "@ai-sdk/react";
import { useCallback, useMemo, useRef } from "react";
import type { ChatMessage } from "../api/types";
import { type PanelName, usePanel } from "../app/panel";
import { useDrop } from "../files/drop";
import { FilesPanel } from "../files/FilesPanel";
import { addUploads } from "../files/queue";
import { SessionPanel } from "../session/SessionPanel";
import { texts } from "../texts";
import { isFinished, toolCall } from "../tools/part";
import { TerminalPanel } from "../terminal/TerminalPanel";
import type { PageEnd } from "../ui/stick";
import { Composer } from "./Composer";
import type { Conversation } from "./conversation";
import { EmptyChat } from "./EmptyChat";
import { Failure } from "./Failure";
import { useLive } from "./live";
import { Queued } from "./Queued";
import { continueWith } from "./queued";
import { TopBar } from "./TopBar";
import { Transcript } from "./Transcript";
import { isFailed, isUnanswered } from "./words";
import "./chat.css";

/** The minimum interval between renders while an answer arrives. */
const THROTTLE_MS = 80;

export function ChatView({ conversation }: { conversation: Conversation }) {
  const { id, chat } = conversation;
  const { messages } = useChat({ chat, experimental_throttle: THROTTLE_MS });
  const live = useLive(id);
  const panel = usePanel((state) => state.panel);
  const end = useRef<PageEnd>(null);
  const finishedCalls = useMemo(() => countFinished(messages), [messages]);
  const begun = messages.length > 0 || conversation.temporary;

  const drop = useDrop((files) => {
    usePanel.setState({ panel: "files" });
    addUploads(id, "", files);
  });

  const stop = useCallback(() => void conversation.stop(), [conversation]);
  const edit = useCallback((messageId: string, text: string) => void conversation.edit(messageId, text), [conversation]);
  const again = useCallback((messageId?: string) => void conversation.answerAgain(messageId), [conversation]);
  const send = (text: string) => {
    void conversation.send(text);
    end.current?.toEnd();
  };
  return (
    <>
      <section className="chat" aria-label={texts.chat.label} {...(begun ? drop.handlers : {})}>
        <TopBar conversation={conversation} />
        {messages.length === 0 ? (
          <EmptyChat chatId={id} temporary={conversation.temporary} onSend={send} />
        ) : (
          <Transcript messages={messages} live={live} onStop={stop} onEdit={edit} onAgain={again} endRef={end} />
        )}
        {drop.over ? <p className="files-drop chat-drop">{texts.files.drop}</p> : null}
        <div className="chat-foot">
          <Failure live={live} unanswered={isUnanswered(messages.at(-1))} failed={isFailed(messages.at(-1))} onAgain={again} />
          <Queued chatId={id} onRelease={() => continueWith(conversation)} />
          <Composer chatId={id} live={live} messages={messages} onSend={send} onStop={stop} />
        </div>
      </section>
      <Panel panel={panel} chatId={id} begun={begun} turn={finishedCalls} />
    </>
  );
}

function Panel({ panel, chatId, begun, turn }: { panel: PanelName | null; chatId: string; begun: boolean; turn: number }) {
  switch (panel) {
    case "files": return <FilesPanel chatId={chatId} begun={begun} turn={turn} />;
    case "terminal": return <TerminalPanel chatId={chatId} begun={begun} />;
    case "session": return <SessionPanel chatId={chatId} begun={begun} turn={turn} />;
    case null: return null;
  }
}

/** Increases with each finished tool call, so that files and sandbox are refreshed. */
function countFinished(messages: ChatMessage[]): number {
  let count = 0;
  for (const message of messages) {
    for (const part of message.parts) {
      const call = toolCall(part);
      if (call && isFinished(call)) count += 1;
    }
  }
  return count;
}
