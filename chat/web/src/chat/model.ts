// The model that answers. In this order: the one selected for this chat, the one of the chat's last answer, the last
// selection, the server's default.
import { create } from "zustand";
import type { AppInfo } from "../api/types";

const KEY = "sandboxd-chat:model";

type Choices = { byChat: Record<string, string>; last: string | null };
export const useModelChoice = create<Choices>(() => ({ byChat: {}, last: readLast() }));

export function chooseModel(chatId: string, model: string): void {
  useModelChoice.setState(({ byChat }) => ({ byChat: { ...byChat, [chatId]: model }, last: model }));
  try {
    localStorage.setItem(KEY, model);
  } catch {
    // Storage is not available: the choice lasts until the page closes.
  }
}

/** The server returned the chat with the model of its last answer. */
export function noteModel(chatId: string, model: string | null): void {
  if (model) useModelChoice.setState(({ byChat }) => ({ byChat: { [chatId]: model, ...byChat } }));
}

/** A model that is no longer connected is skipped. */
export function modelFor(chatId: string, info: AppInfo | null, choices: Choices): string | undefined {
  const connected = info?.models.map((model) => model.id) ?? [];
  const candidates = [choices.byChat[chatId], choices.last, info?.defaultModel, connected[0]];
  return candidates.find((model): model is string => typeof model === "string" && connected.includes(model));
}

function readLast(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
