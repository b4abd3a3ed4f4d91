// xterm.js in the page: its size, its colours, and the keys that belong to the browser.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import type { Size } from "../api/terminals";
import { useTheme } from "../ui/theme";
import { themeOf } from "./colors";
import { type Screen, TerminalConnection } from "./connection";
import { isForTerminal } from "./keys";
import { withNonce } from "./nonce";

/** Lines above the screen. The server keeps fewer. */
const SCROLLBACK_LINES = 10_000;

/** Sizes that sandboxd accepts. */
const MAX_SIZE = { cols: 500, rows: 200 };

/** Pause after a change of the window before the program learns of it. */
const RESIZE_MS = 100;

/** Silence after which the kept output is complete, and the longest time for it. */
const KEPT_PAUSE_MS = 150;
const KEPT_MAX_MS = 3000;

/** What xterm.js answers to queries of programs: device attributes, the cursor's position, modes and strings. */
// eslint-disable-next-line no-control-regex
const REPORT = /^\x1b(?:\[[?>=]?[\d;]*(?:[cnR]|\$y)|\[[?>][\d;]+[uy]|[P\]])/;

/** Ends a sequence that was cut off, and resets the terminal. */
const RESET = "\x18\x1bc";

/** Shows a terminal in an element until the returned function is called. The terminal keeps running. */
export function showTerminal(place: HTMLElement, chatId: string, terminal: string, { status, ended }: Pick<Screen, "status" | "ended">): () => void {
  const emulator = new Terminal({
    scrollback: SCROLLBACK_LINES,
    fontFamily: getComputedStyle(place).getPropertyValue("--mono").trim(),
    fontSize: 13,
    theme: themeOf(place),
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  });
  const fit = new FitAddon();
  emulator.loadAddon(fit);
  withNonce(() => emulator.open(place));
  const kept = new KeptOutput();
  const connection = new TerminalConnection(chatId, terminal, {
    begin: () => {
      kept.begin();
      emulator.write(RESET);
    },
    write: (bytes, shown) => {
      kept.note();
      emulator.write(bytes, shown);
    },
    // In its place among the output, which depends on the size.
    resized: ({ cols, rows }) => emulator.write("", () => emulator.resize(cols, rows)),
    status,
    ended: (end) => {
      emulator.options.disableStdin = true;
      ended(end);
    },
  });
  const encoder = new TextEncoder();
  emulator.onData((text) => {
    // The kept output has queries that were answered when they were new, and one page is enough to answer others.
    if (!REPORT.test(text)) kept.end();
    else if (kept.isArriving || !isFocused(emulator)) return;
    connection.type(encoder.encode(text));
  });
  emulator.onBinary((text) => connection.type(Uint8Array.from(text, (char) => char.charCodeAt(0))));
  emulator.attachCustomKeyEventHandler((event) => isForTerminal(emulator, event));
  // After a copy, the same keys interrupt again.
  const copied = () => setTimeout(() => emulator.clearSelection());
  place.addEventListener("copy", copied);
  const fits = fitting(fit, connection, place);
  emulator.textarea?.addEventListener("focus", fits.again);
  const unwatch = watchTheme(() => { emulator.options.theme = themeOf(place); });
  if (mayTakeFocus(place)) emulator.focus();
  return () => {
    unwatch();
    place.removeEventListener("copy", copied);
    fits.end();
    connection.close();
    emulator.dispose();
  };
}

/** Whether output is still what the terminal has kept from before the connection. It comes in one go, before anything is typed. */
class KeptOutput {
  isArriving = true;
  #latest = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  begin(): void {
    this.isArriving = true;
    this.#latest = Date.now() + KEPT_MAX_MS;
    this.note();
  }

  note(): void {
    if (!this.isArriving) return;
    clearTimeout(this.#timer);
    const pause = Math.min(KEPT_PAUSE_MS, Math.max(0, this.#latest - Date.now()));
    this.#timer = setTimeout(() => this.end(), pause);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.isArriving = false;
  }
}

/** Sends the size of the element when it changes, and again when the person turns to this page. */
function fitting(fit: FitAddon, connection: TerminalConnection, place: HTMLElement): { again: () => void; end: () => void } {
  let sent: Size | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const measure = (again: boolean) => {
    const size = fit.proposeDimensions();
    if (!size || !(size.cols > 1 && size.rows > 1)) return;
    const now = { cols: Math.min(size.cols, MAX_SIZE.cols), rows: Math.min(size.rows, MAX_SIZE.rows) };
    if (!again && now.cols === sent?.cols && now.rows === sent.rows) return;
    sent = now;
    connection.resize(now);
  };
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => measure(false), RESIZE_MS);
  });
  observer.observe(place);
  measure(true);
  return {
    again: () => measure(true),
    end: () => {
      clearTimeout(timer);
      observer.disconnect();
    },
  };
}

/** The page's own choice, or the system's. */
function watchTheme(changed: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  const unsubscribe = useTheme.subscribe(changed);
  return () => {
    system.removeEventListener("change", changed);
    unsubscribe();
  };
}

function isFocused(emulator: Terminal): boolean {
  return document.hasFocus() && document.activeElement === emulator.textarea;
}

/** A person who types elsewhere meanwhile continues there. */
function mayTakeFocus(place: HTMLElement): boolean {
  const { activeElement } = document;
  return activeElement === null || activeElement === document.body || place.closest(".panel")?.contains(activeElement) === true;
}
