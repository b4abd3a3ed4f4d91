// Hears which chats have changed on other pages and devices. Only a visible page listens, because a browser has few
// connections to a server. Every stream begins with a line that stands for all chats, so nothing is missed meanwhile. A page
// that the server does not tell looks by itself, less and less often.
import { ApiError } from "../api/error";
import { request } from "../api/http";
import { pause } from "../ui/pause";

/** The chat that has changed; null stands for all. */
export type Changed = (chat: string | null) => void;

const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 30_000;
/** The server breaks every silence after 15 seconds. */
const MAX_SILENCE_MS = 40_000;

/** Listens while the page is visible, until the returned function is called. */
export function watchChanges(changed: Changed): () => void {
  let listening: AbortController | null = null;
  const look = () => {
    if (document.visibilityState !== "visible") {
      listening?.abort();
      listening = null;
    } else if (!listening) {
      listening = new AbortController();
      void listen(changed, listening.signal);
    }
  };
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    listening?.abort();
  };
}

async function listen(changed: Changed, signal: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    const heard = (chat: string | null) => {
      wait = FIRST_WAIT_MS;
      if (!signal.aborted) changed(chat);
    };
    await read(heard, signal).catch((thrown: unknown) => {
      // The banner of the page says when the server is down.
      if (!signal.aborted && thrown instanceof ApiError && !thrown.unreachable) changed(null);
    });
    await pause(wait);
    wait = Math.min(wait * 2, MAX_WAIT_MS);
  }
}

/** Reads one stream to its end. */
export async function read(changed: Changed, signal: AbortSignal): Promise<void> {
  const { body } = await request("/api/changes", { signal });
  const lines = body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!lines) return;
  try {
    for (let rest = ""; ; ) {
      const piece = await inTime(lines.read());
      if (piece.done) return;
      const parts = (rest + piece.value).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) if (line) changed((JSON.parse(line) as { chat: string | null }).chat);
    }
  } finally {
    await lines.cancel().catch(() => undefined);
  }
}

/** A connection that is lost without a sign stays silent. */
function inTime<T>(reading: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("silence")), MAX_SILENCE_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}
