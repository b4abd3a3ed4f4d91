import type { ChatMessage, StoredChat } from "../api/types";

/** A stopped command is killed within about a second; after this many attempts, the current state is shown. */
export const SETTLE_TRIES_MS = [150, 300, 600, 1200, 2400, 4800];

/**
 * The server's messages, in which each unchanged message is the same object as before, so that it is not rendered
 * again.
 */
export function renewed(before: ChatMessage[], stored: ChatMessage[]): ChatMessage[] {
  const known = new Map(before.map((message) => [message.id, message]));
  const messages = stored.map((message) => {
    const old = known.get(message.id);
    return old && JSON.stringify(old) === JSON.stringify(message) ? old : message;
  });
  const same = messages.length === before.length && messages.every((message, at) => message === before[at]);
  return same ? before : messages;
}

/**
 * The messages of a chat, of which the running answer is only what the page has received of it. Its stored version is older
 * than what the page gets when it joins.
 */
export function settled(stored: StoredChat, before: ChatMessage[]): ChatMessage[] {
  const complete = stored.messages.filter(({ id }) => id !== stored.turnId);
  return [...complete, ...before.filter(({ id }) => id === stored.turnId)];
}
