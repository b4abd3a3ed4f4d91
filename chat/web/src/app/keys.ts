// Keyboard shortcuts of the whole page.
import { useEffect } from "react";
import { useConversations } from "../chat/conversations";
import { liveOf } from "../chat/live";
import { newChat } from "./actions";
import { setPalette, usePanel } from "./panel";
import { useRoute } from "./route";

export function useKeys(): void {
  useEffect(() => {
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

function onKey(event: KeyboardEvent): void {
  const command = event.metaKey || event.ctrlKey;
  const key = event.key.toLowerCase();
  if (command && !event.altKey && key === "k") {
    event.preventDefault();
    setPalette(!usePanel.getState().palette);
  } else if (command && event.shiftKey && key === "o") {
    event.preventDefault();
    newChat();
  } else if (key === "pageup" || key === "pagedown") {
    scroll(event, key === "pageup" ? -1 : 1);
  } else if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open], .menu-open")) {
    stopHere();
  }
}

/** In the composer, which usually has the focus, the keys scroll the messages instead of the single-line field. */
function scroll(event: KeyboardEvent, way: -1 | 1): void {
  const field = event.target;
  if (!(field instanceof HTMLTextAreaElement) || field.scrollHeight > field.clientHeight + 1) return;
  const box = document.querySelector(".transcript");
  if (!box) return;
  event.preventDefault();
  box.scrollBy({ top: way * box.clientHeight * 0.85 });
}

/** Esc stops the answer of the chat in view, unless it closes a dialog or a menu. */
function stopHere(): void {
  const { route } = useRoute.getState();
  const { entries, draftId } = useConversations.getState();
  const id = route.name === "home" ? draftId : route.id;
  const entry = id === null ? undefined : entries[id];
  if (entry?.state === "ready" && liveOf(entry.conversation.id).running) void entry.conversation.stop();
}
