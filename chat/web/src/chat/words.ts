// What the person wrote, as the page reads it.
import type { ChatMessage } from "../api/types";

export function textOf(message: ChatMessage): string {
  return message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}

/** Nothing of an answer came, as when a model's server is away. */
export function isUnanswered(message: ChatMessage | undefined): boolean {
  if (message?.role === "user") return true;
  return message?.role === "assistant" && message.parts.every((part) => part.type === "step-start" || part.type === "data-failed");
}

/** It says itself why it is not complete. */
export function isFailed(message: ChatMessage | undefined): boolean {
  return message?.parts.some((part) => part.type === "data-failed") ?? false;
}

/** The command of `/bash <command>` or `bash: <command>`, which the server runs without a model; else null. */
export function directCommand(text: string): string | null {
  const command = /^\s*(?:\/bash\s|bash:)([\s\S]*)$/i.exec(text)?.[1]?.trim();
  return command === undefined || command === "" ? null : command;
}

/** Puts `/bash ` before a text, or takes it away again. */
export function toggleDirect(text: string): string {
  const command = /^\s*(?:\/bash\s?|bash:\s?)([\s\S]*)$/i.exec(text)?.[1];
  return command ?? `/bash ${text}`;
}

export function looksDirect(text: string): boolean {
  return /^\s*(?:\/bash(?:\s|$)|bash:)/i.test(text);
}
