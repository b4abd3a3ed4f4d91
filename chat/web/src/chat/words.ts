// Helpers for the text of a user's message.
import type { ChatMessage } from "../api/types";

export function textOf(message: ChatMessage): string {
  return message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}

/** The answer has no content, for example because the model server is down. */
export function isUnanswered(message: ChatMessage | undefined): boolean {
  if (message?.role === "user") return true;
  return message?.role === "assistant" && message.parts.every(({ type }) => type === "step-start" || type === "data-failed" || type === "data-stopped");
}

/** The answer states itself why it is incomplete. */
export function isFailed(message: ChatMessage | undefined): boolean {
  return message?.parts.some((part) => part.type === "data-failed") ?? false;
}

/** The command of `/bash <command>` or `bash: <command>`, which the server runs without a model; otherwise null. */
export function directCommand(text: string): string | null {
  const command = /^\s*(?:\/bash\s|bash:)([\s\S]*)$/i.exec(text)?.[1]?.trim();
  return command === undefined || command === "" ? null : command;
}

/** Adds `/bash ` before a text, or removes it. */
export function toggleDirect(text: string): string {
  const command = /^\s*(?:\/bash\s?|bash:\s?)([\s\S]*)$/i.exec(text)?.[1];
  return command ?? `/bash ${text}`;
}

export function looksDirect(text: string): boolean {
  return /^\s*(?:\/bash(?:\s|$)|bash:)/i.test(text);
}
