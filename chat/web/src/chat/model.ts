// Which model answers: what was chosen for this chat, else what the chat was last answered by, else the last choice,
// else the server's default.
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
    // Storage is off: the choice holds until the page closes.
  }
}

/** The chat came from the server with the model that answered last. */
export function noteModel(chatId: string, model: string | null): void {
  if (model) useModelChoice.setState(({ byChat }) => ({ byChat: { [chatId]: model, ...byChat } }));
}

/** A model that is no longer connected is passed over. */
export function modelFor(chatId: string, info: AppInfo | null, choices: Choices): string | undefined {
  const connected = info?.models.map((model) => model.id) ?? [];
  const wishes = [choices.byChat[chatId], choices.last, info?.defaultModel, connected[0]];
  return wishes.find((wish): wish is string => typeof wish === "string" && connected.includes(wish));
}

function readLast(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
