// One chat in this page: the SDK's Chat with additional error handling. If the server rejects a message, the text
// returns to the composer, so that it is not lost. An answer that was stopped or interrupted is read again from the
// server, which knows how it ended. If the server is down too, this happens as soon as it responds again.
import { Chat } from "@ai-sdk/react";
import { getChat } from "../api/chats";
import { ApiError, sentenceOf } from "../api/error";
import type { ChatMessage } from "../api/types";
import { loadChats, noteChat } from "../chats/store";
import { isAway, refreshServer, suspect, suspectTools, useServer } from "../server/store";
import { texts } from "../texts";
import { bashOutput, LOST, type Part, toolCall } from "../tools/part";
import { announce } from "../ui/announce";
import { draftOf, setDraft } from "./drafts";
import { liveOf, setLive } from "./live";
import { modelFor, useModelChoice } from "./model";
import { newId } from "./ids";
import { renewed } from "./renewed";
import { transportFor } from "./transport";

const FOLLOW_EVERY_MS = 1500;
/** A stopped command is killed within about a second; after this many attempts, the current state is shown. */
const SETTLE_TRIES_MS = [150, 300, 600, 1200, 2400, 4800];
/** Error codes of a send that are obsolete once the server and its tools respond again. */
const PASSING_CODES: readonly (string | null)[] = ["unreachable", "tools_disabled", "unavailable"];

export class Conversation {
  readonly chat: Chat<ChatMessage>;
  private before: ChatMessage[] = [];
  private sent = "";
  private began = false;
  /** Increases with each message that the user sends. */
  private turn = 0;
  /** The displayed messages may be older than the server's. */
  private stale = false;
  private following = false;
  private closed = false;

  constructor(
    readonly id: string,
    readonly temporary: boolean,
    messages: ChatMessage[],
    private readonly onBegin: () => void = () => undefined,
  ) {
    this.chat = new Chat<ChatMessage>({
      id,
      messages,
      generateId: newId,
      transport: transportFor(id, temporary, () => this.begin()),
      onData: (part) => {
        if (part.type === "data-sandbox") setLive(id, { sandbox: part.data.state === "ready" ? null : part.data });
        else if (part.type === "data-chat" && !temporary) noteChat(id, { title: part.data.title });
      },
      onError: (error) => this.fail(error),
      onFinish: (end) => {
        if (end.isDisconnect || !end.isError) this.finish(end.isAbort, end.isDisconnect || end.finishReason === undefined);
      },
    });
  }

  send(text: string): Promise<void> {
    return this.run(text, () => this.chat.sendMessage({ text }, this.options()));
  }

  edit(messageId: string, text: string): Promise<void> {
    return this.run(text, () => this.chat.sendMessage({ text, messageId }, this.options()));
  }

  answerAgain(messageId?: string): Promise<void> {
    const options = this.options();
    return this.run("", () => this.chat.regenerate(messageId === undefined ? options : { messageId, ...options }));
  }

  /** Aborts the request; the server then stops the answer. */
  async stop(): Promise<void> {
    if (!liveOf(this.id).running) return;
    if (!this.temporary) setLive(this.id, { settling: true });
    await this.chat.stop();
  }

  /** Another window is receiving this chat's answer: polls until it ends, even if the server is down meanwhile. */
  async follow(): Promise<void> {
    if (this.following) return;
    this.following = true;
    setLive(this.id, { elsewhere: true });
    while (!this.closed && !liveOf(this.id).running) {
      const running = await this.reload().catch((thrown: unknown) => isUnreachable(thrown));
      if (!running) break;
      await pause(FOLLOW_EVERY_MS);
    }
    this.following = false;
    setLive(this.id, { elsewhere: false });
  }

  /** Another window may have continued this chat meanwhile. */
  async refresh(): Promise<void> {
    if (this.temporary || this.chat.messages.length === 0 || isTaken(this.id)) return;
    const running = await this.reload().catch(() => false);
    if (running && !isTaken(this.id)) void this.follow();
  }

  /** The server or its tools were down and respond again. */
  serverIsBack(): void {
    const { failure } = liveOf(this.id);
    if (failure?.during === "sending" && PASSING_CODES.includes(failure.code)) setLive(this.id, { failure: null });
    if (!this.stale || isTaken(this.id)) return;
    this.stale = false;
    void this.settle(false);
  }

  /** The chat is no longer shown. */
  close(): void {
    this.closed = true;
  }

  private async run(text: string, request: () => Promise<void>): Promise<void> {
    // A user may press a button twice before the page shows the first press.
    if (isTaken(this.id)) {
      if (text && text !== this.sent) this.giveBack(text);
      return;
    }
    this.before = this.chat.messages;
    this.sent = text;
    this.began = false;
    this.stale = false;
    this.turn += 1;
    setLive(this.id, { running: true, settling: false, failure: null, sandbox: null });
    try {
      await request();
    } catch (thrown) {
      this.fail(thrown instanceof Error ? thrown : new Error(texts.errors.unknown));
    }
  }

  private options(): { body: { model?: string } } {
    const model = modelFor(this.id, useServer.getState().info, useModelChoice.getState());
    return { body: model === undefined ? {} : { model } };
  }

  private begin(): void {
    this.began = true;
    if (!this.temporary) noteChat(this.id, this.before.length === 0 ? { title: this.sent.slice(0, 60) } : {});
    this.onBegin();
  }

  private fail(error: Error): void {
    // The connection was lost: it is handled when the SDK has finished with the request.
    if (this.began && isBroken(error)) return;
    const during = this.began ? "answer" : "sending";
    if (!this.began) {
      this.chat.messages = this.before;
      this.giveBack(this.sent);
    }
    const code = error instanceof ApiError ? error.code : null;
    const sentence = OWN_WORDS[code ?? ""] ?? sentenceOf(error);
    setLive(this.id, { running: false, settling: false, sandbox: null, failure: { sentence, during, code } });
    announce(this.began ? texts.message.failed : sentence);
    suspect(error);
    if (this.temporary) return;
    if (this.began) void loadChats();
    else if (code === "busy") void this.follow();
  }

  private finish(aborted: boolean, cut: boolean): void {
    setLive(this.id, { running: false, sandbox: null });
    if (this.chat.lastMessage?.parts.some(isBrokenCall)) suspectTools();
    announce(aborted ? texts.message.stopped : cut ? texts.errors.cut : texts.message.done);
    if (this.temporary) {
      setLive(this.id, { settling: false, failure: cut && !aborted ? CUT : null });
      return;
    }
    if (!this.began) this.takeBack();
    else if (aborted || cut) void this.settle(aborted);
    else void loadChats();
  }

  /** Stopped before the server responded: handled as if it had not been sent. */
  private takeBack(): void {
    this.chat.messages = this.before;
    this.giveBack(this.sent);
    setLive(this.id, { settling: false });
  }

  private giveBack(text: string): void {
    if (text && !draftOf(this.id)) setDraft(this.id, text);
  }

  private async settle(aborted: boolean): Promise<void> {
    setLive(this.id, { settling: true });
    for (const wait of SETTLE_TRIES_MS) {
      await pause(wait);
      if (this.closed || liveOf(this.id).running) return;
      const running = await this.reload().catch((thrown: unknown) => this.isWorthAnotherTry(thrown));
      if (!running) break;
    }
    setLive(this.id, { settling: false, failure: aborted ? null : CUT });
    if (!this.stale) void loadChats();
  }

  /** If the server itself is down, there are no attempts: the chat is read when the server responds again. */
  private async isWorthAnotherTry(thrown: unknown): Promise<boolean> {
    if (!isUnreachable(thrown)) return true;
    await refreshServer();
    this.stale = isAway();
    return !this.stale;
  }

  /** Adopts the server's messages; returns true while the server is still answering. */
  private async reload(): Promise<boolean> {
    const { turn } = this;
    const stored = await getChat(this.id);
    // A response to a request from before the user's next message is outdated.
    const late = liveOf(this.id).running || turn !== this.turn;
    if (!late) this.chat.messages = renewed(this.chat.messages, stored.messages);
    return stored.running;
  }
}

/** Codes for which the page has a better sentence, which says what happened to the user's text. */
const OWN_WORDS: Readonly<Record<string, string>> = { busy: texts.errors.busy, unreachable: texts.errors.notSent };

const CUT = { sentence: texts.errors.cut, during: "answer" as const, code: null };

/** Nothing can be sent now: an answer is in progress, here or in another window. */
function isTaken(id: string): boolean {
  const { running, settling, elsewhere } = liveOf(id);
  return running || settling || elsewhere;
}

function isUnreachable(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.unreachable;
}

/** The tool itself failed, or its connection was lost during a command. */
function isBrokenCall(part: Part): boolean {
  const call = toolCall(part);
  return call !== null && (call.error !== null || bashOutput(call.output)?.exitCode === LOST);
}

/** The SDK reports a lost connection in this way, unlike an error that the server sent. */
function isBroken(error: Error): boolean {
  return error instanceof TypeError && /fetch|network/i.test(error.message);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
