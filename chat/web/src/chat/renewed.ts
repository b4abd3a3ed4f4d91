import type { ChatMessage } from "../api/types";

/** What the server has, with every message that did not change as the very object it was, so that it is not drawn anew. */
export function renewed(before: ChatMessage[], stored: ChatMessage[]): ChatMessage[] {
  const known = new Map(before.map((message) => [message.id, message]));
  const messages = stored.map((message) => {
    const old = known.get(message.id);
    return old && JSON.stringify(old) === JSON.stringify(message) ? old : message;
  });
  const same = messages.length === before.length && messages.every((message, at) => message === before[at]);
  return same ? before : messages;
}
