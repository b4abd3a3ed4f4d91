import { KeyRound } from "lucide-react";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import { openTokenDialog, useAccess } from "./store";

/** Shown if a token matters: in LAN mode, and whenever this page is not allowed to use the server. */
export function TokenButton() {
  const info = useServer((server) => server.info);
  const { token, check } = useAccess();
  if (!info || (info.access !== "lan" && info.mayUse)) return null;
  const state = !token ? "none" : !check ? "unknown" : check.allowed ? "allowed" : "denied";
  const tone = state === "allowed" ? "ok" : state === "denied" ? "warn" : undefined;
  return (
    <IconButton label={`${texts.access.open}: ${texts.access.states[state]}`} tone={tone} onClick={openTokenDialog} testId="lan-admin:open">
      <KeyRound />
    </IconButton>
  );
}
