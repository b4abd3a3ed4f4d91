import { Ghost, X } from "lucide-react";
import { setDrawer } from "../app/panel";
import { go, useRoute } from "../app/route";
import { closeTemporary } from "../app/actions";
import { useConversations } from "../chat/conversations";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";

/** The temporary chats of this page. The server does not list them. */
export function TemporaryRows() {
  const entries = useConversations((state) => state.entries);
  const route = useRoute((at) => at.route);
  const ids = Object.entries(entries).flatMap(([id, entry]) => (entry.state === "ready" && entry.conversation.temporary ? [id] : []));
  if (ids.length === 0) return null;
  return (
    <ul>
      {ids.map((id) => (
        <li key={id} className={`row row-temporary ${route.name === "temporary" && route.id === id ? "row-current" : ""}`}>
          <button
            type="button"
            className="row-link"
            onClick={() => {
              setDrawer(false);
              go({ name: "temporary", id });
            }}
          >
            <Ghost aria-hidden />
            <span className="clip">{texts.chats.temporary}</span>
          </button>
          <IconButton label={texts.close} onClick={() => void closeTemporary(id)}><X /></IconButton>
        </li>
      ))}
    </ul>
  );
}
