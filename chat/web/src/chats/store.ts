// The list of stored chats, newest change first, page by page.
import { create } from "zustand";
import { changeChat, deleteChat, listChats } from "../api/chats";
import { sentenceOf } from "../api/error";
import type { ChatPage, ChatSummary } from "../api/types";

type Chats = {
  chats: ChatSummary[];
  nextCursor: string | null;
  state: "idle" | "loading" | "ready" | "failed";
  error: string | null;
};

const EMPTY: Chats = { chats: [], nextCursor: null, state: "idle", error: null };
export const useChats = create<Chats>(() => EMPTY);

export async function loadChats(): Promise<void> {
  useChats.setState(({ state }) => ({ state: state === "ready" ? "ready" : "loading", error: null }));
  await fill(null);
}

export async function moreChats(): Promise<void> {
  const { nextCursor } = useChats.getState();
  if (nextCursor) await fill(nextCursor);
}

async function fill(cursor: string | null): Promise<void> {
  try {
    const page = await listChats(cursor);
    useChats.setState((before) => ({ ...joined(before, page, cursor === null), state: "ready", error: null }));
  } catch (thrown) {
    useChats.setState({ state: "failed", error: sentenceOf(thrown) });
  }
}

export function forgetChats(): void {
  useChats.setState(EMPTY);
}

/** A chat was created or its title became known: shown at once, before the list is requested again. */
export function noteChat(id: string, change: { title?: string }): void {
  useChats.setState(({ chats }) => {
    const now = new Date().toISOString();
    const known = chats.find((chat) => chat.id === id) ?? { id, title: "", createdAt: now, updatedAt: now, model: null };
    return { chats: [{ ...known, ...change, updatedAt: now }, ...chats.filter((chat) => chat.id !== id)] };
  });
}

export async function rename(id: string, title: string): Promise<void> {
  const renamed = await changeChat(id, { title });
  useChats.setState(({ chats }) => ({ chats: chats.map((chat) => (chat.id === id ? { ...chat, ...renamed } : chat)) }));
}

export async function remove(id: string): Promise<void> {
  await deleteChat(id);
  useChats.setState(({ chats }) => ({ chats: chats.filter((chat) => chat.id !== id) }));
}

type Listed = Pick<Chats, "chats" | "nextCursor">;

/** A first page replaces the chats that it covers; pages loaded after it are kept. */
export function joined(before: Listed, page: ChatPage, first: boolean): Listed {
  const fresh = new Set(page.chats.map((chat) => chat.id));
  const others = before.chats.filter((chat) => !fresh.has(chat.id));
  if (!first) return { chats: [...others, ...page.chats], nextCursor: page.nextCursor };
  const oldest = page.chats.at(-1)?.updatedAt;
  const below = oldest === undefined || page.nextCursor === null ? [] : others.filter((chat) => chat.updatedAt < oldest);
  return { chats: [...page.chats, ...below], nextCursor: below.length > 0 ? before.nextCursor : page.nextCursor };
}
