// A connection to a terminal that is made again when it breaks. The server sends what the terminal has kept first, so the
// screen is emptied before each one.
import { isNotFound, sentenceOf } from "../api/error";
import { type Size, socketAddress } from "../api/terminals";
import { texts } from "../texts";

/** Pauses before attempts to connect again, in milliseconds. The last one is repeated. */
const PAUSES_MS = [250, 500, 1000, 2000, 5000];

/** Maximum length of a message to the server. */
export const MAX_INPUT_BYTES = 64 * 1024;

export type Ended = { exitCode: number } | "gone";

export type Screen = {
  /** Empties the screen, because everything follows again. */
  begin: () => void;
  write: (bytes: Uint8Array) => void;
  /** Another page may have chosen the size. */
  resized: (size: Size) => void;
  /** A sentence while there is no connection, or null. */
  status: (sentence: string | null) => void;
  ended: (end: Ended) => void;
};

type Message = { type: "size"; cols: number; rows: number } | { type: "error"; error: string } | { type: "exit"; exitCode: number };

export class TerminalConnection {
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #attempts = 0;
  #over = false;
  #size: Size | null = null;

  constructor(
    private readonly chatId: string,
    private readonly terminal: string,
    private readonly screen: Screen,
  ) {
    void this.#connect();
  }

  type(text: string): void {
    this.#send(new TextEncoder().encode(text));
  }

  typeBytes(bytes: Uint8Array): void {
    this.#send(bytes);
  }

  resize(size: Size): void {
    this.#size = size;
    if (this.#isOpen()) this.#socket?.send(JSON.stringify({ type: "resize", ...size }));
  }

  /** Leaves the terminal, which keeps running. */
  close(): void {
    this.#over = true;
    if (this.#timer) clearTimeout(this.#timer);
    this.#socket?.close();
  }

  #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  #send(bytes: Uint8Array): void {
    if (!this.#isOpen()) return;
    for (let at = 0; at < bytes.length; at += MAX_INPUT_BYTES) {
      this.#socket?.send(bytes.slice(at, at + MAX_INPUT_BYTES));
    }
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
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () => {
      this.#attempts = 0;
      this.screen.status(null);
      this.screen.begin();
      if (this.#size) this.resize(this.#size);
    };
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>) => {
      if (typeof data === "string") this.#hear(JSON.parse(data) as Message);
      else this.screen.write(new Uint8Array(data));
    };
    // If the terminal is gone, there is no other ticket for it.
    socket.onclose = () => this.#again(texts.terminals.reconnecting);
  }

  #hear(message: Message): void {
    if (message.type === "size") this.screen.resized(message);
    else if (message.type === "exit") this.#end({ exitCode: message.exitCode });
    else this.screen.status(message.error);
  }

  #again(sentence: string): void {
    if (this.#over) return;
    this.#socket = null;
    this.screen.status(sentence);
    const pause = PAUSES_MS[Math.min(this.#attempts, PAUSES_MS.length - 1)];
    this.#attempts += 1;
    this.#timer = setTimeout(() => void this.#connect(), pause);
  }

  #end(end: Ended): void {
    this.#over = true;
    this.screen.status(null);
    this.screen.ended(end);
  }
}
