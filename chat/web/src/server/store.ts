// The server's status. It is polled while the page is in view. While something is wrong, it is polled again: at once
// on the user's request, otherwise after 1, 2, 4 … seconds, and whenever the page becomes visible again.
import { create } from "zustand";
import { getApp } from "../api/chats";
import { wantToken } from "../api/credentials";
import { ApiError, sentenceOf } from "../api/error";
import type { AppInfo } from "../api/types";

const FIRST_WAIT_S = 1;
const MAX_WAIT_S = 10;
/** The server caches its check of sandboxd for this long; this adds a small margin. */
const SERVER_LOOKS_EVERY_MS = 5500;
/** The poll interval while everything works. */
const LOOK_EVERY_MS = 20_000;

type Server = {
  info: AppInfo | null;
  /** Why the last poll failed. */
  error: string | null;
  /** The time of the next poll, as Date.now(); null while everything works. */
  nextTryAt: number | null;
};

export const useServer = create<Server>(() => ({ info: null, error: null, nextTryAt: null }));

let waitSeconds = FIRST_WAIT_S;
let timer: ReturnType<typeof setTimeout> | undefined;
let asking: Promise<void> | null = null;

/** Concurrent callers share one request. */
export function refreshServer(): Promise<void> {
  asking ??= ask().finally(() => {
    asking = null;
  });
  return asking;
}

export function watchServer(): void {
  void refreshServer();
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && useServer.getState().nextTryAt !== null) void refreshServer();
  });
  window.addEventListener("online", () => void refreshServer());
  setInterval(glance, LOOK_EVERY_MS);
}

/** Polls, unless a poll is already scheduled or the page is hidden. */
export function glance(): void {
  if (document.visibilityState === "visible" && useServer.getState().nextTryAt === null) void refreshServer();
}

/** A failure suggests that the server or its tools are down: poll now, not at the next interval. */
export function suspect(thrown: unknown): void {
  if (thrown instanceof ApiError && (thrown.unreachable || thrown.status === 503 || thrown.code === "tools_disabled")) {
    void refreshServer();
  }
}

/** A tool failed. Its sandboxd may be down, which the server detects at its next check. */
export function suspectTools(): void {
  void refreshServer();
  setTimeout(glance, SERVER_LOOKS_EVERY_MS);
}

/** Tools whose sandboxd does not respond may recover by themselves; disabled tools will not. */
export function toolsAway(info: AppInfo): boolean {
  return info.mayUse && info.tools.isPassing;
}

/** The server or its tools do not respond. */
export function isAway({ info, error }: Pick<Server, "info" | "error"> = useServer.getState()): boolean {
  return error !== null || (info !== null && toolsAway(info));
}

async function ask(): Promise<void> {
  clearTimeout(timer);
  try {
    const info = await getApp();
    wantToken(info.access !== "localhost");
    useServer.setState({ info, error: null });
    if (toolsAway(info)) later();
    else calm();
  } catch (thrown) {
    useServer.setState({ error: sentenceOf(thrown) });
    later();
  }
}

function later(): void {
  timer = setTimeout(() => {
    // Only automatic polls increase the next delay; a poll on the user's request does not.
    waitSeconds = Math.min(waitSeconds * 2, MAX_WAIT_S);
    void refreshServer();
  }, waitSeconds * 1000);
  useServer.setState({ nextTryAt: Date.now() + waitSeconds * 1000 });
}

function calm(): void {
  waitSeconds = FIRST_WAIT_S;
  useServer.setState({ nextTryAt: null });
}
