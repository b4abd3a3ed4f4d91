// One chat in this page: the SDK's Chat with additional error handling. A rejected text is not lost. An answer belongs to the
// server: the page joins it, also after a lost connection, and reads one that was stopped or has ended meanwhile again. If the
// server is down too, this happens as soon as it responds.
import { Chat } from "@ai-sdk/react";
import { getChat, stopTurn } from "../api/chats";
import { ApiError } from "../api/error";
import type { ChatMessage } from "../api/types";
import { loadChats, noteChat } from "../chats/store";
import { isAway, refreshServer, suspect, suspectTools } from "../server/store";
import { texts } from "../texts";
import { announce } from "../ui/announce";
import { pause } from "../ui/pause";
import { giveBack } from "./drafts";
import { CUT, failureOf, isBroken, isBrokenCall, isUnreachable, PASSING_CODES } from "./faults";
import { isTaken, liveOf, setLive } from "./live";
import { noteModel, optionsFor } from "./model";
import { hold, type Refused } from "./queued";
import { newId } from "./ids";
import { renewed, SETTLE_TRIES_MS, settled } from "./renewed";
import { transportFor } from "./transport";

const REJOIN_MS = 500;

export class Conversation {
  readonly chat: Chat<ChatMessage>;
  private before: ChatMessage[] = [];
  private sent = "";
  private began = false;
  /** The answer was stopped, on this page or another. */
  private stopped = false;
  /** The SDK has reported the end of the request. */
  private ended = false;
  /** The page has joined the answer, and may have received long outputs shortened. */
  private joined = false;
  private cuts = 0;
  /** Increases with each message that the user sends. */
  private turn = 0;
  /** The server is down. The displayed messages may be older than its own, and it may still be answering. */
  stale = false;
  private closed = false;
  /** Another page may have changed the chat while something was in progress here. */
  missed = false;
  private refused: Refused | null = null;

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
      transport: transportFor(id, temporary, {
        began: () => this.begin(),
        stopped: () => this.noteStop(),
      }),
      onData: (part) => {
        if (part.type === "data-sandbox") setLive(id, { sandbox: part.data.state === "ready" ? null : part.data });
        else if (part.type === "data-chat" && !temporary) noteChat(id, { title: part.data.title });
      },
      onError: (error) => this.fail(error),
      onFinish: (end) => {
        if (end.isError && this.ended) return;
        this.finish(end.isAbort || this.stopped, end.isDisconnect || end.finishReason === undefined);
      },
    });
  }

  /** `refused` gets a text that the server does not accept, and whether it is answering already. Without it, the composer does. */
  send(text: string, refused?: Refused): Promise<void> {
    this.refused = refused ?? null;
    return this.run(text, () => this.chat.sendMessage({ text }, optionsFor(this.id)));
  }

  edit(messageId: string, text: string): Promise<void> {
    this.refused = null;
    return this.run(text, () => this.chat.sendMessage({ text, messageId }, optionsFor(this.id)));
  }

  answerAgain(messageId?: string): Promise<void> {
    const options = optionsFor(this.id);
    this.refused = null;
    return this.run("", () => this.chat.regenerate(messageId === undefined ? options : { messageId, ...options }));
  }

  /** Stops the answer. The server keeps it so far, and ends the stream. */
  async stop(): Promise<void> {
    if (!liveOf(this.id).running) return;
    this.noteStop();
    if (!this.temporary) setLive(this.id, { settling: true });
    const { lastMessage } = this.chat;
    const turnId = this.began && lastMessage?.role === "assistant" ? lastMessage.id : null;
    if (!this.began) await this.chat.stop();
    await stopTurn(this.id, turnId).catch(() => this.chat.stop());
  }

  /** What was sent before the stop is held, and what is sent after it waits for its end. */
  private noteStop(): void {
    if (!this.stopped) hold(this.id);
    this.stopped = true;
  }

  /** Joins the answer that the server is writing, from its beginning. */
  async join(): Promise<void> {
    if (isTaken(this.id)) return;
    this.enter("");
    this.began = this.joined = true;
    await this.chat.resumeStream();
    if (this.ended) return;
    // The answer has ended meanwhile, or the server does not respond.
    setLive(this.id, { running: false, failure: this.temporary ? CUT : null });
    if (!this.temporary) void this.settle(false);
  }

  /** Another page may have continued this chat meanwhile. */
  async refresh(): Promise<void> {
    if (this.temporary || this.chat.messages.length === 0) return;
    this.missed = isTaken(this.id);
    if (!this.missed && (await this.reload())) void this.join();
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
      if (text && text !== this.sent) giveBack(this.id, text);
      return;
    }
    this.enter(text);
    this.cuts = 0;
    try {
      await request();
    } catch (thrown) {
      this.fail(thrown instanceof Error ? thrown : new Error(texts.errors.unknown));
    }
  }

  private enter(text: string): void {
    this.before = this.chat.messages;
    this.sent = text;
    this.began = this.stopped = this.ended = this.joined = this.stale = false;
    this.turn += 1;
    setLive(this.id, { running: true, settling: false, failure: null, sandbox: null });
  }

  private begin(): void {
    if (this.began) return;
    this.began = true;
    if (!this.temporary) noteChat(this.id, this.before.length === 0 ? { title: this.sent.slice(0, 60) } : {});
    this.onBegin();
  }

  private fail(error: Error): void {
    // The connection was lost: it is handled when the SDK has finished with the request.
    if (this.began && (isBroken(error) || isUnreachable(error))) return;
    this.ended = true;
    const failure = failureOf(error, this.began ? "answer" : "sending");
    const { code, sentence } = failure;
    if (!this.began) {
      this.takeBack(code === "busy");
      this.stale = isUnreachable(error) && this.before.length > 0 && !this.temporary;
    }
    setLive(this.id, { running: false, settling: false, sandbox: null, failure });
    announce(this.began ? texts.message.failed : sentence);
    suspect(error);
    if (code === "busy" && !this.began) void (this.temporary ? this.join() : this.refresh().catch(() => undefined));
    else if (this.began && !this.temporary) void loadChats();
  }

  private finish(aborted: boolean, cut: boolean): void {
    this.ended = true;
    setLive(this.id, { running: false, settling: false, sandbox: null });
    if (this.chat.lastMessage?.parts.some(isBrokenCall)) suspectTools();
    announce(aborted ? texts.message.stopped : cut ? texts.errors.cut : texts.message.done);
    if (this.temporary) {
      if (cut && !aborted) void pause(REJOIN_MS).then(() => this.join());
      return;
    }
    if (!this.began) this.takeBack(false);
    else if (aborted || cut || this.joined) void this.settle(aborted);
    else void loadChats();
  }

  /** Stopped before the server responded: handled as if it had not been sent. */
  private takeBack(isBusy: boolean): void {
    this.chat.messages = this.before;
    if (this.refused) this.refused(isBusy);
    else if (this.sent) giveBack(this.id, this.sent);
    this.refused = null;
  }

  private async settle(aborted: boolean): Promise<void> {
    setLive(this.id, { settling: true });
    let known = false;
    for (const wait of SETTLE_TRIES_MS) {
      await pause(wait);
      if (this.closed) break;
      if (liveOf(this.id).running) return;
      const running = await this.reload().catch((thrown: unknown) => this.isWorthAnotherTry(thrown));
      known = running !== true && !this.stale;
      if (!running) break;
      if (running === "answering" && !aborted) {
        await pause(Math.min(REJOIN_MS * this.cuts, 5000));
        this.cuts += 1;
        setLive(this.id, { settling: false });
        return this.join();
      }
    }
    setLive(this.id, { settling: false, failure: known || aborted ? null : CUT });
    if (!this.stale) void loadChats();
  }

  /** If the server itself is down, there are no attempts: the chat is read when the server responds again. */
  private async isWorthAnotherTry(thrown: unknown): Promise<boolean> {
    if (!isUnreachable(thrown)) return !(thrown instanceof ApiError && thrown.status === 404);
    await refreshServer();
    this.stale = isAway();
    return !this.stale;
  }

  /** Adopts the server's messages. */
  private async reload(): Promise<"answering" | false> {
    const { turn } = this;
    const stored = await getChat(this.id);
    // A response to a request from before the user's next message is outdated.
    // The page shows why its last answer has failed until there is another.
    const { failure, running } = liveOf(this.id);
    const known = failure?.during === "answer" && stored.messages.at(-1)?.id === this.chat.lastMessage?.id;
    if (!known && !running && turn === this.turn) {
      noteModel(this.id, stored.model);
      this.chat.messages = renewed(this.chat.messages, settled(stored, this.chat.messages));
    }
    return stored.running ? "answering" : false;
  }
}
