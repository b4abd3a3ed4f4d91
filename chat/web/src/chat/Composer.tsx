// The input field. Enter sends, or queues during an answer; Shift+Enter starts a new line, the arrow keys go through earlier
// messages.
import { ArrowUp, Square, SquareTerminal } from "lucide-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { ChatMessage } from "../api/types";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import { setDraft, useDraft } from "./drafts";
import { useAutoHeight } from "./height";
import type { Live } from "./live";
import { ModelPicker } from "./ModelPicker";
import { enqueue, MAX_QUEUED, useQueued } from "./queued";
import { directCommand, looksDirect, textOf, toggleDirect } from "./words";

type Props = { chatId: string; live: Live; messages: ChatMessage[]; onSend: (text: string) => void; onStop: () => void };

export function Composer({ chatId, live, messages, onSend, onStop }: Props) {
  const text = useDraft(chatId);
  const info = useServer((server) => server.info);
  const field = useRef<HTMLTextAreaElement>(null);
  const recall = useRecall(messages);
  useAutoHeight(field, text);
  useEffect(() => {
    // On a touch screen, the focus would open the keyboard.
    if (window.matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [chatId]);

  const direct = looksDirect(text);
  const command = directCommand(text);
  const limit = (command === null ? info?.limits.messageChars : info?.limits.commandChars) ?? Infinity;
  const tooLong = (command ?? text).length > limit;
  const noModel = info?.models.length === 0;
  const busy = live.running || live.settling;
  const full = useQueued(chatId).length >= MAX_QUEUED;
  const maySend = text.trim() !== "" && !tooLong && !(busy && full);

  const change = (next: string) => setDraft(chatId, next);
  const send = () => {
    if (!maySend) return;
    // Cleared first: a send that fails at once restores the text.
    change("");
    if (busy) enqueue(chatId, text.trim());
    else onSend(text.trim());
    recall.reset();
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const found = recall.step(event.key === "ArrowUp" ? 1 : -1, event.currentTarget);
      if (found === null) return;
      event.preventDefault();
      change(found);
    }
  };
  const sendLabel = busy ? texts.queued.add : texts.composer.send;
  return (
    <div className="column composer-column">
      <div className={`composer ${direct ? "composer-direct" : ""}`} onClick={(event) => event.target === event.currentTarget && field.current?.focus()}>
        <textarea
          ref={field}
          className={direct ? "mono" : ""}
          value={text}
          rows={1}
          dir="auto"
          placeholder={noModel ? texts.composer.placeholderDirect : texts.composer.placeholder}
          aria-label={texts.composer.label}
          aria-invalid={tooLong}
          spellCheck={!direct}
          autoCapitalize={direct ? "off" : "sentences"}
          enterKeyHint="send"
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKeyDown}
          data-testid="composer:input"
        />
        <div className="composer-foot">
          <IconButton
            label={direct ? texts.composer.shellOn : texts.composer.shell}
            aria-pressed={direct}
            tone={direct ? "accent" : undefined}
            onClick={() => {
              change(toggleDirect(text));
              field.current?.focus();
            }}
            testId="composer:shell"
          >
            <SquareTerminal />
          </IconButton>
          <ModelPicker chatId={chatId} begun={messages.length > 0} />
          <span className={`composer-hint clip ${tooLong ? "tone-bad" : ""}`} role={tooLong ? "alert" : undefined}>
            {tooLong ? texts.composer.tooLong(command !== null, limit) : hintOf(live, direct, text.trim() !== "", full)}
          </span>
          {live.running ? (
            <button type="button" className="send send-stop" aria-label={texts.composer.stop} title={texts.composer.stop} onClick={onStop} data-testid="composer:stop"><Square /></button>
          ) : null}
          {!live.running || maySend ? (
            <button type="button" className="send" aria-label={sendLabel} title={sendLabel} disabled={!maySend} onClick={send} data-testid="composer:send"><ArrowUp /></button>
          ) : null}
        </div>
      </div>
    </div>
  );
}

function hintOf(live: Live, direct: boolean, typed: boolean, full: boolean): string {
  if (live.running && typed) return full ? texts.queued.full(MAX_QUEUED) : texts.queued.hint;
  if (live.settling) return texts.composer.stopping;
  if (live.running) return texts.composer.hintRunning;
  return direct ? texts.composer.shellOn : texts.composer.hint;
}

/** Goes back through the user's own messages, like a shell, from an empty field or after a previous step. */
function useRecall(messages: ChatMessage[]) {
  const [steps, setSteps] = useState(0);
  const sent = messages.filter((message) => message.role === "user").map(textOf).reverse();
  return {
    reset: () => setSteps(0),
    step: (by: 1 | -1, field: HTMLTextAreaElement): string | null => {
      const walking = steps > 0 && field.value === sent[steps - 1];
      if (!walking && (field.value !== "" || by < 0)) return null;
      const next = (walking ? steps : 0) + by;
      if (next > sent.length) return null;
      setSteps(next);
      return next === 0 ? "" : (sent[next - 1] ?? null);
    },
  };
}
