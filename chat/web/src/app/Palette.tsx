// Search for chats and actions by name. The field keeps the focus; the arrow keys move the selection, as in a
// combobox.
import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from "react";
import { Box, FolderOpen, Ghost, MessageSquare, SquarePen, SunMoon } from "lucide-react";
import { useChats } from "../chats/store";
import { texts } from "../texts";
import { Dialog } from "../ui/Dialog";
import { plainName } from "../ui/names";
import { nextTheme } from "../ui/theme";
import { newChat, newTemporary } from "./actions";
import { setPalette, togglePanel } from "./panel";
import { go } from "./route";

type Choice = { key: string; label: string; icon: ReactNode; run: () => void };

const MAX_SHOWN = 12;

const ACTIONS: Choice[] = [
  { key: "new", label: texts.chats.new, icon: <SquarePen />, run: newChat },
  { key: "temporary", label: texts.chats.temporary, icon: <Ghost />, run: () => void newTemporary() },
  { key: "files", label: texts.files.title, icon: <FolderOpen />, run: () => togglePanel("files") },
  { key: "session", label: texts.session.title, icon: <Box />, run: () => togglePanel("session") },
  { key: "theme", label: texts.theme.label, icon: <SunMoon />, run: nextTheme },
];

export function Palette() {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const chats = useChats((state) => state.chats);
  const listId = useId();
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [
    ...ACTIONS,
    ...chats.map((chat) => ({
      key: `chat-${chat.id}`,
      label: plainName(chat.title) || texts.chats.untitled,
      icon: <MessageSquare />,
      run: () => go({ name: "chat", id: chat.id }),
    })),
  ].filter(({ label }) => words.every((word) => label.toLowerCase().includes(word))).slice(0, MAX_SHOWN);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    document.getElementById(`${listId}-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen, listId]);

  const run = (choice: Choice | undefined) => {
    if (!choice) return;
    setPalette(false);
    choice.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt((chosen + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setAt((chosen - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={texts.palette.title} kind="palette" bare onClose={() => setPalette(false)} testId="palette">
      <input
        className="palette-field"
        role="combobox"
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={found.length > 0 ? `${listId}-${chosen}` : undefined}
        aria-label={texts.palette.placeholder}
        placeholder={texts.palette.placeholder}
        value={query}
        data-focus
        onChange={(event) => {
          setQuery(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul className="palette-list" role="listbox" id={listId} aria-label={texts.palette.title}>
        {found.map((choice, index) => (
          <li key={choice.key} id={`${listId}-${index}`} role="option" aria-selected={index === chosen} onClick={() => run(choice)} onPointerMove={() => setAt(index)}>
            {choice.icon}
            <span className="clip">{choice.label}</span>
          </li>
        ))}
        {found.length === 0 ? <li className="palette-none">{texts.palette.none}</li> : null}
      </ul>
    </Dialog>
  );
}
