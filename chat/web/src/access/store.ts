// The LAN token and the server's last verdict on it.
import { create } from "zustand";
import { getAdminAccess } from "../api/chats";
import { setAdminToken } from "../api/credentials";
import { ApiError, isRecord } from "../api/error";
import type { AccessReason } from "../api/types";
import { readToken, writeToken } from "./storage";

export type CheckReason = AccessReason | "invalid_response" | "network_error" | "rate_limited";
export type Check = { allowed: boolean; reason: CheckReason; retryAfterSeconds: number | null };

type Access = {
  token: string;
  remembered: boolean;
  check: Check | null;
  checking: boolean;
  /** `x-remcochat-bash-tools-enabled` of the last chat answer. */
  lastHeader: "0" | "1" | null;
  dialogOpen: boolean;
};

export const useAccess = create<Access>(() => ({
  token: "",
  remembered: false,
  check: null,
  checking: false,
  lastHeader: null,
  dialogOpen: false,
}));

export function loadToken(): void {
  const kept = readToken();
  setAdminToken(kept.token);
  useAccess.setState(kept);
}

export async function saveToken(raw: string, remember: boolean): Promise<void> {
  const kept = writeToken(raw, remember);
  setAdminToken(kept.token);
  useAccess.setState({ ...kept, remembered: remember, check: null });
  await checkToken();
}

export async function checkToken(): Promise<void> {
  useAccess.setState({ checking: true });
  useAccess.setState({ check: await askServer(), checking: false });
}

export function openTokenDialog(): void {
  useAccess.setState({ dialogOpen: true });
}

export function closeTokenDialog(): void {
  useAccess.setState({ dialogOpen: false });
}

/** Only the two values of the contract are kept. */
export function sawToolsHeader(value: string | null): void {
  if (value === "0" || value === "1") useAccess.setState({ lastHeader: value });
}

const REASONS: readonly string[] = ["localhost", "allowed", "missing_server_token", "missing_client_token", "token_mismatch"];

async function askServer(): Promise<Check> {
  try {
    const answer: unknown = await getAdminAccess();
    if (!isRecord(answer) || typeof answer["allowed"] !== "boolean" || !REASONS.includes(String(answer["reason"]))) {
      return { allowed: false, reason: "invalid_response", retryAfterSeconds: null };
    }
    return { allowed: answer["allowed"], reason: answer["reason"] as AccessReason, retryAfterSeconds: null };
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.status === 429) {
      return { allowed: false, reason: "rate_limited", retryAfterSeconds: thrown.retryAfterSeconds };
    }
    const answered = !(thrown instanceof ApiError) || !thrown.unreachable;
    return { allowed: false, reason: answered ? "invalid_response" : "network_error", retryAfterSeconds: null };
  }
}
