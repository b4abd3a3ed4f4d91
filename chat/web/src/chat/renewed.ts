import type { ChatMessage } from "../api/types";

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
