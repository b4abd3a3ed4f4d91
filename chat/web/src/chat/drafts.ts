// The text in each chat's composer. It is kept when the user changes the chat, and a failed send restores its text.
import { create } from "zustand";

const useDrafts = create<{ drafts: Record<string, string> }>(() => ({ drafts: {} }));

export function useDraft(chatId: string): string {
  return useDrafts(({ drafts }) => drafts[chatId] ?? "");
}

export function draftOf(chatId: string): string {
  return useDrafts.getState().drafts[chatId] ?? "";
}

export function setDraft(chatId: string, text: string): void {
  useDrafts.setState(({ drafts }) => ({ drafts: { ...drafts, [chatId]: text } }));
}

/** Returns a text that was not sent to the composer, before what the user has typed since. */
export function giveBack(chatId: string, text: string): void {
  const draft = draftOf(chatId);
  setDraft(chatId, draft ? `${text}\n\n${draft}` : text);
}
