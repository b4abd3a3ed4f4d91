import { chatPath } from "./chats";
import { request, requestJson } from "./http";
import type { NetworkInfo, SandboxInfo } from "./types";

export function getSandbox(chatId: string): Promise<SandboxInfo> {
  return requestJson(`${chatPath(chatId)}/sandbox`, { chatId });
}

export function parkSandbox(chatId: string): Promise<SandboxInfo> {
  return requestJson(`${chatPath(chatId)}/sandbox/park`, { method: "POST", json: {}, chatId });
}

export async function deleteSandbox(chatId: string): Promise<void> {
  await request(`${chatPath(chatId)}/sandbox`, { method: "DELETE", chatId });
}

export function getNetwork(chatId: string): Promise<NetworkInfo> {
  return requestJson(`${chatPath(chatId)}/network`, { chatId });
}

export function allowHost(chatId: string, host: string): Promise<NetworkInfo> {
  return requestJson(`${chatPath(chatId)}/network/allow`, { method: "POST", json: { host }, chatId });
}
