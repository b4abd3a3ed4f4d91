// What the server says of itself, asked now and then while the page is in view, and again while something is wrong: at
// once on the person's word, otherwise after 1, 2, 4 … seconds, and whenever the page comes back into view.
import { create } from "zustand";
import { getApp } from "../api/chats";
import { wantToken } from "../api/credentials";
import { ApiError, sentenceOf } from "../api/error";
import type { AppInfo } from "../api/types";

const FIRST_WAIT_S = 1;
const MAX_WAIT_S = 10;
/** For so long the server believes its last look at sandboxd, and a little longer. */
const SERVER_LOOKS_EVERY_MS = 5500;
/** While all is well. */
const LOOK_EVERY_MS = 20_000;

type Server = {
  info: AppInfo | null;
  /** Why the last question got no answer. */
  error: string | null;
  /** When it is asked again, as Date.now(); null while all is well. */
  nextTryAt: number | null;
};

export const useServer = create<Server>(() => ({ info: null, error: null, nextTryAt: null }));

let waitSeconds = FIRST_WAIT_S;
let timer: ReturnType<typeof setTimeout> | undefined;
let asking: Promise<void> | null = null;

/** Callers at the same time share one question. */
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

/** Looks, unless a look is due anyway or nobody would see what it finds. */
export function glance(): void {
  if (document.visibilityState === "visible" && useServer.getState().nextTryAt === null) void refreshServer();
}

/** Something just failed that suggests the server or its tools are away: look now, not at the next turn. */
export function suspect(thrown: unknown): void {
  if (thrown instanceof ApiError && (thrown.unreachable || thrown.status === 503 || thrown.code === "tools_disabled")) {
    void refreshServer();
  }
}

/** A tool failed. Its sandboxd may be away, which the server notices when it next looks. */
export function suspectTools(): void {
  void refreshServer();
  setTimeout(glance, SERVER_LOOKS_EVERY_MS);
}

/** Tools whose sandboxd does not answer may come back by themselves; tools that were switched off will not. */
export function toolsAway(info: AppInfo): boolean {
  return info.mayUse && info.tools.isPassing;
}

/** The server does not answer, or its tools do not. */
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
    // Only waiting makes the next wait longer; a look that the person asked for does not.
    waitSeconds = Math.min(waitSeconds * 2, MAX_WAIT_S);
    void refreshServer();
  }, waitSeconds * 1000);
  useServer.setState({ nextTryAt: Date.now() + waitSeconds * 1000 });
}

function calm(): void {
  waitSeconds = FIRST_WAIT_S;
  useServer.setState({ nextTryAt: null });
}
