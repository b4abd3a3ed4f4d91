import { chatPath } from "./chats";
import { isNotFound } from "./error";
import { request, requestJson } from "./http";
import type { OpenedTerminal } from "./types";

export type Size = { cols: number; rows: number };

/** A chat that does not exist has no terminals. */
export async function listTerminals(chatId: string): Promise<OpenedTerminal[]> {
  try {
    const { terminals } = await requestJson<{ terminals: OpenedTerminal[] }>(terminalsPath(chatId), { chatId });
    return terminals;
  } catch (thrown) {
    if (isNotFound(thrown)) return [];
    throw thrown;
  }
}

export async function openTerminal(chatId: string, size: Size): Promise<string> {
  const { id } = await requestJson<{ id: string }>(terminalsPath(chatId), { method: "POST", json: size, chatId });
  return id;
}

export async function closeTerminal(chatId: string, terminal: string): Promise<void> {
  await request(terminalPath(chatId, terminal), { method: "DELETE", chatId });
}

/** The address of a WebSocket, which cannot send credentials: its ticket admits one connection, and soon. */
export async function socketAddress(chatId: string, terminal: string): Promise<string> {
  const path = `${terminalPath(chatId, terminal)}/ticket`;
  const { ticket } = await requestJson<{ ticket: string }>(path, { method: "POST", json: {}, chatId });
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/terminals/${encodeURIComponent(ticket)}`;
}

function terminalsPath(chatId: string): string {
  return `${chatPath(chatId)}/terminals`;
}

function terminalPath(chatId: string, terminal: string): string {
  return `${terminalsPath(chatId)}/${encodeURIComponent(terminal)}`;
}
