// The chats that this page keeps open, so that an answer continues while the user views another chat.
import { create } from "zustand";
import { getChat, openTemporary } from "../api/chats";
import { forgetTicket, setTicket } from "../api/credentials";
import { ApiError, sentenceOf } from "../api/error";
import { deleteSandbox } from "../api/sandbox";
import { go, useRoute } from "../app/route";
import { isAway, suspect, useServer } from "../server/store";
import { Conversation } from "./conversation";
import { newId } from "./ids";
import { liveOf, onceIdle } from "./live";
import { noteModel } from "./model";
import { continueWith, forgetQueued, hasQueued, hold } from "./queued";
import { settled } from "./renewed";

/** Idle stored chats beyond this number are closed; they are read again when they are opened. */
const MAX_OPEN = 12;

export type Entry =
  | { state: "loading" }
  | { state: "ready"; conversation: Conversation }
  | { state: "missing" }
  | { state: "failed"; sentence: string };

type Conversations = { entries: Record<string, Entry>; draftId: string | null };
export const useConversations = create<Conversations>(() => ({ entries: {}, draftId: null }));

useServer.subscribe((now, before) => {
  if (!isAway(before) || isAway(now)) return;
  for (const entry of Object.values(useConversations.getState().entries)) {
    if (entry.state === "ready") entry.conversation.serverIsBack();
  }
});

onceIdle((id) => {
  const entry = useConversations.getState().entries[id];
  if (entry?.state !== "ready" || entry.conversation.stale) return;
  const { conversation } = entry;
  if (!continueWith(conversation) && conversation.missed) void refreshOpen(id);
});

/** The chat of the empty page. It becomes a stored chat with its first message. */
export function draftConversation(): string {
  const { draftId } = useConversations.getState();
  if (draftId) return draftId;
  const id = newId();
  const begun = () => {
    if (useConversations.getState().draftId !== id) return;
    useConversations.setState({ draftId: null });
    if (useRoute.getState().route.name === "home") go({ name: "chat", id });
  };
  put(id, { state: "ready", conversation: new Conversation(id, false, [], begun) });
  useConversations.setState({ draftId: id });
  return id;
}

export async function openStored(id: string): Promise<void> {
  const known = useConversations.getState().entries[id];
  if (known?.state === "ready" || known?.state === "loading") return;
  put(id, { state: "loading" });
  try {
    const stored = await getChat(id);
    const conversation = new Conversation(id, false, settled(stored, []));
    noteModel(id, stored.model);
    put(id, { state: "ready", conversation });
    if (stored.running) void conversation.join();
    else hold(id);
    closeIdle(id);
  } catch (thrown) {
    suspect(thrown);
    const missing = thrown instanceof ApiError && thrown.status === 404;
    put(id, missing ? { state: "missing" } : { state: "failed", sentence: sentenceOf(thrown) });
  }
}

export async function beginTemporary(): Promise<void> {
  const { id, ticket } = await openTemporary();
  setTicket(id, ticket);
  put(id, { state: "ready", conversation: new Conversation(id, true, []) });
  go({ name: "temporary", id });
}

/** Ends a temporary chat. Its sandbox would expire in time; this request removes it now. */
export async function endTemporary(id: string): Promise<void> {
  const entry = useConversations.getState().entries[id];
  if (entry?.state === "ready") await entry.conversation.stop();
  await deleteSandbox(id).catch(() => undefined);
  forgetTicket(id);
  forgetQueued(id);
  forgetConversation(id);
}

export function forgetConversation(id: string): void {
  const entry = useConversations.getState().entries[id];
  if (entry?.state === "ready") entry.conversation.close();
  useConversations.setState(({ entries }) => {
    return { entries: Object.fromEntries(Object.entries(entries).filter(([key]) => key !== id)) };
  });
}

/** Reads an open chat again, because another page may have changed or deleted it. */
export async function refreshOpen(id: string): Promise<void> {
  const entry = useConversations.getState().entries[id];
  if (entry?.state !== "ready") return;
  try {
    await entry.conversation.refresh();
  } catch (thrown) {
    const missing = thrown instanceof ApiError && thrown.status === 404;
    if (!missing || useConversations.getState().entries[id] !== entry) return;
    forgetQueued(id);
    put(id, { state: "missing" });
  }
}

/** After a new token, everything that failed without one is requested again. */
export function forgetFailed(): void {
  useConversations.setState(({ entries }) => ({
    entries: Object.fromEntries(Object.entries(entries).filter(([, entry]) => entry.state !== "failed")),
  }));
}

function put(id: string, entry: Entry): void {
  useConversations.setState(({ entries }) => ({ entries: { ...entries, [id]: entry } }));
}

function closeIdle(keep: string): void {
  const { entries, draftId } = useConversations.getState();
  const idle = Object.entries(entries).filter(([id, entry]) => {
    if (id === keep || id === draftId || liveOf(id).running || liveOf(id).settling || hasQueued(id)) return false;
    return entry.state !== "ready" || !entry.conversation.temporary;
  });
  for (const [id] of idle.slice(0, Math.max(0, idle.length - MAX_OPEN))) forgetConversation(id);
}
