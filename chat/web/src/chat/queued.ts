// Messages that the user sent during an answer. Each is sent when the answer before it is complete. If one was stopped or has
// failed, those that waited are held until the user sends, edits or removes them, who may want something else now. They
// belong to this tab, and a reload keeps them.
import { create } from "zustand";
import { hasTicket } from "../api/credentials";
import type { Conversation } from "./conversation";
import { isTaken, liveOf } from "./live";

/** The maximum number of waiting messages of a chat. */
export const MAX_QUEUED = 8;

const KEY = "sandboxd-chat:queued";

/** Gets a message that the server does not accept, and whether it is answering already. */
export type Refused = (isBusy: boolean) => void;

export type Queued = { text: string; held: boolean };
type Queues = Record<string, Queued[]>;
const useQueues = create<{ queues: Queues }>(() => ({ queues: restored() }));

const NONE: Queued[] = [];

export function useQueued(chatId: string): Queued[] {
  return useQueues(({ queues }) => queues[chatId] ?? NONE);
}

export function hasQueued(chatId: string): boolean {
  return queueOf(chatId).length > 0;
}

export function enqueue(chatId: string, text: string): void {
  change(chatId, (queue) => [...queue, { text, held: false }]);
}

export function dequeue(chatId: string, index: number): void {
  change(chatId, (queue) => queue.filter((_, at) => at !== index));
}

/** Lets a held message be sent in its turn. */
export function release(chatId: string, index: number): void {
  change(chatId, (queue) => queue.map((one, at) => (at === index ? { ...one, held: false } : one)));
}

/** The answer that they waited for was stopped or has failed. */
export function hold(chatId: string): void {
  change(chatId, (queue) => queue.map((one) => ({ ...one, held: true })));
}

/** The chat is gone. */
export function forgetQueued(chatId: string): void {
  change(chatId, () => []);
}

/** The page is about to belong to another user. */
export function forgetAllQueued(): void {
  useQueues.setState({ queues: {} });
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Storage is not available, so nothing was kept.
  }
}

/** Sends the next message, if nothing is in progress. Returns whether there is one. */
export function continueWith(conversation: Pick<Conversation, "id" | "send">): boolean {
  const { id } = conversation;
  if (isTaken(id)) return false;
  if (liveOf(id).failure?.during === "answer") hold(id);
  const next = queueOf(id).findIndex(({ held }) => !held);
  const message = queueOf(id)[next];
  if (message === undefined) return false;
  dequeue(id, next);
  // One that the server does not accept waits in its place. If the chat is answering already, it is sent after that answer.
  const refused: Refused = (isBusy) => change(id, (queue) => queue.toSpliced(next, 0, { ...message, held: !isBusy }));
  void conversation.send(message.text, refused);
  return true;
}

function queueOf(chatId: string): Queued[] {
  return useQueues.getState().queues[chatId] ?? NONE;
}

function change(chatId: string, changed: (queue: Queued[]) => Queued[]): void {
  const { [chatId]: before = NONE, ...others } = useQueues.getState().queues;
  const queue = changed(before);
  const queues = queue.length === 0 ? others : { ...others, [chatId]: queue };
  useQueues.setState({ queues });
  const kept = Object.fromEntries(Object.entries(queues).filter(([id]) => !hasTicket(id)));
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // Storage is not available or full: they last until the page closes.
  }
}

/** Only a reload is the same tab. A duplicated one has a copy of the storage, and would send everything a second time. */
function restored(): Queues {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  if (navigation?.type !== "reload") return {};
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    if (typeof stored !== "object" || stored === null) return {};
    return Object.fromEntries(Object.entries(stored).filter((entry): entry is [string, Queued[]] => isQueue(entry[1])));
  } catch {
    return {};
  }
}

function isQueue(value: unknown): value is Queued[] {
  return Array.isArray(value) && value.every((one: unknown) => typeof one === "object" && one !== null && "text" in one && typeof one.text === "string" && "held" in one);
}
