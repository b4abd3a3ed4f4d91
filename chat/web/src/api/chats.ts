import { requestJson, request } from "./http";
import type { AdminAccess, AppInfo, ChatPage, ChatSummary, StoredChat, TemporaryChat } from "./types";

const PAGE = 40;

export function getApp(signal?: AbortSignal): Promise<AppInfo> {
  return requestJson("/api/app", signal ? { signal } : {});
}

export function getAdminAccess(): Promise<AdminAccess> {
  return requestJson("/api/admin/access");
}

export function listChats(cursor: string | null): Promise<ChatPage> {
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (cursor) query.set("cursor", cursor);
  return requestJson(`/api/chats?${query.toString()}`);
}

export function getChat(id: string): Promise<StoredChat> {
  return requestJson(chatPath(id));
}

export function changeChat(id: string, change: { title?: string; model?: string }): Promise<ChatSummary> {
  return requestJson(chatPath(id), { method: "PATCH", json: change });
}

export async function deleteChat(id: string): Promise<void> {
  await request(chatPath(id), { method: "DELETE" });
}

/** Stops the chat's answer, if it has this id, or any without one. Its end comes with the answer. */
export async function stopTurn(id: string, turnId: string | null): Promise<void> {
  await request(`${chatPath(id)}/stop`, { method: "POST", json: { turnId }, chatId: id });
}

export function openTemporary(): Promise<TemporaryChat> {
  return requestJson("/api/temporary", { method: "POST", json: {} });
}

export function chatPath(id: string): string {
  return `/api/chats/${encodeURIComponent(id)}`;
}
