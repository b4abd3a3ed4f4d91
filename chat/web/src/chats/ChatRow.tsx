import { Pencil, Trash2 } from "lucide-react";
import { type KeyboardEvent, memo, useState } from "react";
import type { ChatSummary } from "../api/types";
import { sentenceOf } from "../api/error";
import { removeChat } from "../app/actions";
import { setDrawer } from "../app/panel";
import { go } from "../app/route";
import { useLive } from "../chat/live";
import { texts } from "../texts";
import { complain } from "../ui/announce";
import { Confirm } from "../ui/Confirm";
import { Menu } from "../ui/Menu";
import { plainName } from "../ui/names";
import { rename } from "./store";

const MAX_TITLE = 200;

export const ChatRow = memo(function ChatRow({ chat, current }: { chat: ChatSummary; current: boolean }) {
  const [mode, setMode] = useState<"show" | "rename" | "delete">("show");
  const { running } = useLive(chat.id);
  const title = plainName(chat.title) || texts.chats.untitled;
  return (
    <li className={`row ${current ? "row-current" : ""}`} data-testid="chat:row" data-chat-id={chat.id}>
      {mode === "rename" ? (
        <Rename chat={chat} onDone={() => setMode("show")} />
      ) : (
        <>
          <a
            href={`/c/${chat.id}`}
            className="row-link"
            aria-current={current ? "page" : undefined}
            onDoubleClick={() => setMode("rename")}
            onClick={(event) => {
              if (event.metaKey || event.ctrlKey || event.shiftKey) return;
              event.preventDefault();
              setDrawer(false);
              if (!current) go({ name: "chat", id: chat.id });
            }}
          >
            <bdi className="clip">{title}</bdi>
            {running ? <span className="row-dot" role="img" aria-label={texts.chats.running} /> : null}
          </a>
          <Menu
            label={texts.chats.actions(title)}
            items={[
              { label: texts.chats.rename, icon: <Pencil />, run: () => setMode("rename") },
              { label: texts.chats.delete, icon: <Trash2 />, run: () => setMode("delete"), danger: true },
            ]}
          />
        </>
      )}
      {mode === "delete" ? (
        <Confirm title={texts.chats.deleteTitle} text={texts.chats.deleteText(title)} action={texts.chats.delete} run={() => removeChat(chat.id)} onClose={() => setMode("show")} />
      ) : null}
    </li>
  );
});

function Rename({ chat, onDone }: { chat: ChatSummary; onDone: () => void }) {
  const [title, setTitle] = useState(chat.title);
  const save = async () => {
    onDone();
    const next = title.trim();
    if (next && next !== chat.title) await rename(chat.id, next).catch((thrown: unknown) => complain(sentenceOf(thrown)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") void save();
    if (event.key === "Escape") {
      event.stopPropagation();
      onDone();
    }
  };
  return (
    <input
      className="row-input"
      value={title}
      maxLength={MAX_TITLE}
      autoFocus
      aria-label={texts.chats.renameLabel}
      onFocus={(event) => event.target.select()}
      onChange={(event) => setTitle(event.target.value)}
      onBlur={() => void save()}
      onKeyDown={onKeyDown}
    />
  );
}
