// What stands in each chat's composer. It outlives a change of chats, and a send that failed puts its text back.
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
