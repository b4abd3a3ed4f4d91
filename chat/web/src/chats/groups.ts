// Groups chats by the day of their last change.
import type { ChatSummary } from "../api/types";
import { texts } from "../texts";

export type Group = { name: string; chats: ChatSummary[] };

const DAY_MS = 86_400_000;

/** Expects the newest chat first and keeps that order. */
export function groupsOf(chats: ChatSummary[], now = new Date()): Group[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const groups: Group[] = [];
  for (const chat of chats) {
    const name = nameOf(Date.parse(chat.updatedAt), midnight);
    const last = groups.at(-1);
    if (last?.name === name) last.chats.push(chat);
    else groups.push({ name, chats: [chat] });
  }
  return groups;
}

function nameOf(at: number, midnight: number): string {
  if (at >= midnight) return texts.chats.today;
  if (at >= midnight - DAY_MS) return texts.chats.yesterday;
  if (at >= midnight - 7 * DAY_MS) return texts.chats.week;
  return texts.chats.older;
}
