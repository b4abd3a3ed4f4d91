import { chatPath } from "./chats";
import { isNotFound } from "./error";
import { request, requestJson } from "./http";
import type { NetworkInfo, SandboxInfo } from "./types";

const NONE: SandboxInfo = {
  state: "none",
  sandboxId: null,
  provider: null,
  seed: { state: "none", reason: null },
  image: null,
  limits: null,
  usage: null,
  runningCommands: null,
  expiresAt: null,
  lastActiveAt: null,
  network: null,
  posture: null,
};

/** A chat that does not exist has no sandbox. */
export function getSandbox(chatId: string): Promise<SandboxInfo> {
  return requestJson<SandboxInfo>(`${chatPath(chatId)}/sandbox`, { chatId }).catch((thrown: unknown) => {
    if (isNotFound(thrown)) return NONE;
    throw thrown;
  });
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
