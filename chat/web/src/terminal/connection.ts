// A connection to a terminal that is made again when it breaks. The server sends what the terminal has kept first, so the
// screen is emptied before each one.
import { asSentence, isNotFound, sentenceOf } from "../api/error";
import { type Size, socketAddress } from "../api/terminals";
import { texts } from "../texts";

/** Pauses before attempts to connect again, in milliseconds. The last one is repeated. */
const PAUSES_MS = [250, 500, 1000, 2000, 5000];

/** Maximum length of a message to the server. */
const MAX_INPUT_BYTES = 64 * 1024;

/** Output that the screen has not shown yet. With more, the page disconnects until it has, and gets the latest then. */
const MAX_UNSHOWN_BYTES = 2 * 1024 * 1024;

/** How long a rejected input is reported. */
const REJECTED_MS = 5000;

export type Ended = { exitCode: number } | "gone";

export type Screen = {
  /** Empties the screen, because everything follows again. */
  begin: () => void;
  write: (bytes: Uint8Array, shown: () => void) => void;
  /** Another page may have chosen the size. */
  resized: (size: Size) => void;
  /** A sentence while something is wrong, or null. */
  status: (sentence: string | null) => void;
  ended: (end: Ended) => void;
};

type Message =
  | { type: "size"; cols: number; rows: number }
  | { type: "error"; error: string }
  | { type: "exit"; exitCode: number; reason: string };

export class TerminalConnection {
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #rejected: ReturnType<typeof setTimeout> | null = null;
  #attempts = 0;
  #over = false;
  #unshownBytes = 0;
  /** Whether it has disconnected until the screen has shown everything. */
  #isBehind = false;
  #size: Size | null = null;
  /** Why there is no connection, if the server has said it. */
  #reason: string | null = null;

  constructor(
    private readonly chatId: string,
    private readonly terminal: string,
    private readonly screen: Screen,
  ) {
    void this.#connect();
  }

  type(bytes: Uint8Array<ArrayBuffer>): void {
    if (!this.#isOpen()) return;
    for (let at = 0; at < bytes.length; at += MAX_INPUT_BYTES) this.#socket?.send(bytes.slice(at, at + MAX_INPUT_BYTES));
  }

  resize(size: Size): void {
    this.#size = size;
    if (this.#isOpen()) this.#socket?.send(JSON.stringify({ type: "resize", ...size }));
  }

  /** Leaves the terminal, which keeps running. */
  close(): void {
    this.#over = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#rejected) clearTimeout(this.#rejected);
    this.#socket?.close();
  }

  #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  async #connect(): Promise<void> {
    let address: string;
    try {
      address = await socketAddress(this.chatId, this.terminal);
    } catch (thrown) {
      if (this.#over) return;
      if (isNotFound(thrown)) this.#end("gone");
      else this.#again(sentenceOf(thrown));
      return;
    }
    if (this.#over) return;
    this.#listen(new WebSocket(address));
  }

  #listen(socket: WebSocket): void {
    this.#socket = socket;
    this.#reason = null;
    let isEmpty = true;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (this.#size) this.resize(this.#size);
    };
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>) => {
      if (this.#over || socket !== this.#socket) return;
      const message = typeof data === "string" ? (JSON.parse(data) as Message) : null;
      // A connection that only says why there is none does not touch the screen.
      if (isEmpty && message?.type !== "error") {
        isEmpty = false;
        this.#attempts = 0;
        this.screen.status(null);
        this.screen.begin();
      }
      if (typeof data !== "string") this.#show(new Uint8Array(data));
      else if (message) this.#hear(message);
    };
    // If the terminal is gone, there is no other ticket for it.
    socket.onclose = () => {
      if (socket === this.#socket) this.#again(this.#reason ?? texts.terminals.reconnecting);
    };
  }

  #show(bytes: Uint8Array): void {
    this.#unshownBytes += bytes.length;
    this.screen.write(bytes, () => {
      this.#unshownBytes -= bytes.length;
      if (this.#unshownBytes > 0 || !this.#isBehind || this.#over) return;
      this.#isBehind = false;
      void this.#connect();
    });
    if (this.#unshownBytes <= MAX_UNSHOWN_BYTES) return;
    this.#isBehind = true;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #hear(message: Message): void {
    if (message.type === "size") this.screen.resized(message);
    else if (message.type === "exit") this.#end(message.reason === "lost" ? "gone" : { exitCode: message.exitCode });
    else this.#reject(asSentence(message.error));
  }

  /** Says why input was rejected, or why the connection ends right after this. */
  #reject(sentence: string): void {
    this.#reason = sentence;
    this.screen.status(sentence);
    if (this.#rejected) clearTimeout(this.#rejected);
    this.#rejected = setTimeout(() => {
      this.#reason = null;
      if (this.#isOpen()) this.screen.status(null);
    }, REJECTED_MS);
  }

  #again(sentence: string): void {
    if (this.#over) return;
    this.#socket = null;
    this.screen.status(sentence);
    const pause = PAUSES_MS[Math.min(this.#attempts, PAUSES_MS.length - 1)];
    this.#attempts += 1;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#connect();
    }, pause);
  }

  #end(end: Ended): void {
    this.#over = true;
    this.screen.status(null);
    this.screen.ended(end);
  }
}
