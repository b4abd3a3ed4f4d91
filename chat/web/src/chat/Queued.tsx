import { ArrowUp, Pencil, X } from "lucide-react";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import { giveBack } from "./drafts";
import { dequeue, release, useQueued } from "./queued";

/** The messages that wait for the end of the answer, or for the user. */
export function Queued({ chatId, onRelease }: { chatId: string; onRelease: () => void }) {
  const queue = useQueued(chatId);
  if (queue.length === 0) return null;
  const edit = (index: number, text: string) => {
    dequeue(chatId, index);
    giveBack(chatId, text);
  };
  const send = (index: number) => {
    release(chatId, index);
    onRelease();
  };
  return (
    <ul className="column queued" aria-label={texts.queued.label}>
      {queue.map(({ text, held }, index) => (
        <li key={`${index}:${text}`} data-testid="queued" data-held={held}>
          <span className="clip">{text}</span>
          <span className="quiet">{held ? texts.queued.held : texts.queued.waits}</span>
          {held ? <IconButton label={texts.queued.send} onClick={() => send(index)} testId="queued:send"><ArrowUp /></IconButton> : null}
          <IconButton label={texts.queued.edit} onClick={() => edit(index, text)}><Pencil /></IconButton>
          <IconButton label={texts.queued.remove} onClick={() => dequeue(chatId, index)}><X /></IconButton>
        </li>
      ))}
    </ul>
  );
}
