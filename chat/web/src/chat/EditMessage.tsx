import { type KeyboardEvent, useRef, useState } from "react";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { useAutoHeight } from "./height";
import { looksDirect } from "./words";

type Props = { text: string; onSave: (text: string) => void; onCancel: () => void };

export function EditMessage({ text, onSave, onCancel }: Props) {
  const [draft, setDraft] = useState(text);
  const field = useRef<HTMLTextAreaElement>(null);
  useAutoHeight(field, draft);
  const save = () => draft.trim() && onSave(draft.trim());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      save();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      onCancel();
    }
  };
  return (
    <div className="edit">
      <textarea
        ref={field}
        className={looksDirect(draft) ? "mono" : ""}
        value={draft}
        autoFocus
        rows={1}
        aria-label={texts.message.edit}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="edit-foot">
        <span className="quiet">{texts.composer.editing}</span>
        <Button onClick={onCancel}>{texts.cancel}</Button>
        <Button kind="main" onClick={save} disabled={!draft.trim()}>{texts.composer.send}</Button>
      </div>
    </div>
  );
}
