// The model that answers. In this order: the one selected for this chat, also on another page, the last selection, the
// server's default.
import { create } from "zustand";
import { changeChat } from "../api/chats";
import { hasTicket } from "../api/credentials";
import { sentenceOf } from "../api/error";
import type { AppInfo } from "../api/types";
import { useServer } from "../server/store";
import { complain } from "../ui/announce";

const KEY = "sandboxd-chat:model";

type Choices = { byChat: Record<string, string>; last: string | null };
export const useModelChoice = create<Choices>(() => ({ byChat: {}, last: readLast() }));

/** Chats whose choice the server does not know yet. */
const unsent = new Set<string>();

/** `begun`: the chat has messages. */
export function chooseModel(chatId: string, model: string, begun: boolean): void {
  useModelChoice.setState(({ byChat }) => ({ byChat: { ...byChat, [chatId]: model }, last: model }));
  try {
    localStorage.setItem(KEY, model);
  } catch {
    // Storage is not available: the choice lasts until the page closes.
  }
  // Other pages of a stored chat show the choice too.
  if (!begun || hasTicket(chatId)) return;
  unsent.add(chatId);
  changeChat(chatId, { model }).then(
    () => unsent.delete(chatId),
    (thrown: unknown) => complain(sentenceOf(thrown)),
  );
}

/** The server returned the chat with the model that was selected on any page. */
export function noteModel(chatId: string, model: string | null): void {
  if (model && !unsent.has(chatId)) useModelChoice.setState(({ byChat }) => ({ byChat: { ...byChat, [chatId]: model } }));
}

/** A model that is no longer connected is skipped. */
export function modelFor(chatId: string, info: AppInfo | null, choices: Choices): string | undefined {
  const connected = info?.models.map((model) => model.id) ?? [];
  const candidates = [choices.byChat[chatId], choices.last, info?.defaultModel, connected[0]];
  return candidates.find((model): model is string => typeof model === "string" && connected.includes(model));
}

/** The options of a request with the selected model. */
export function optionsFor(chatId: string): { body: { model?: string } } {
  const model = modelFor(chatId, useServer.getState().info, useModelChoice.getState());
  return { body: model === undefined ? {} : { model } };
}

function readLast(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
