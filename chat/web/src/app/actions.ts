// Actions that the sidebar, the palette and the keyboard share.
import { sentenceOf } from "../api/error";
import { beginTemporary, endTemporary, forgetConversation, useConversations } from "../chat/conversations";
import { forgetQueued } from "../chat/queued";
import { remove } from "../chats/store";
import { suspect } from "../server/store";
import { complain } from "../ui/announce";
import { setDrawer } from "./panel";
import { go, useRoute } from "./route";

export function newChat(): void {
  setDrawer(false);
  go({ name: "home" }, useRoute.getState().route.name === "home" ? "replace" : "push");
  document.querySelector<HTMLElement>("[data-testid='composer:input']")?.focus();
}

export async function newTemporary(): Promise<void> {
  try {
    await beginTemporary();
    setDrawer(false);
  } catch (thrown) {
    suspect(thrown);
    complain(sentenceOf(thrown));
  }
}

export async function closeTemporary(id: string): Promise<void> {
  leave(id);
  await endTemporary(id);
}

export async function removeChat(id: string): Promise<void> {
  await remove(id);
  const entry = useConversations.getState().entries[id];
  if (entry?.state === "ready") void entry.conversation.chat.stop();
  forgetQueued(id);
  forgetConversation(id);
  leave(id);
}

function leave(id: string): void {
  const { route } = useRoute.getState();
  if (route.name !== "home" && route.id === id) go({ name: "home" }, "replace");
}
