// xterm.js in the page: its size, its colours, and the keys that belong to the browser.
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { texts } from "../texts";
import { useTheme } from "../ui/theme";
import { type Screen, TerminalConnection } from "./connection";

type CreateElement = (tag: string, options?: ElementCreationOptions) => HTMLElement;

/** Lines above the screen. The server keeps fewer. */
const SCROLLBACK_LINES = 10_000;

/** Sizes that sandboxd accepts. */
const MAX_SIZE = { cols: 500, rows: 200 };

/** Shows a terminal in an element until the returned function is called. The terminal keeps running. */
export function showTerminal(place: HTMLElement, chatId: string, terminal: string, { status, ended }: Pick<Screen, "status" | "ended">): () => void {
  const emulator = new Terminal({
    scrollback: SCROLLBACK_LINES,
    fontFamily: styleOf(place, "--mono"),
    fontSize: 13,
    theme: themeOf(place),
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  });
  const fit = new FitAddon();
  emulator.loadAddon(fit);
  withNonce(() => emulator.open(place));
  const connection = new TerminalConnection(chatId, terminal, {
    begin: () => emulator.reset(),
    write: (bytes) => emulator.write(bytes),
    resized: ({ cols, rows }) => emulator.resize(cols, rows),
    status,
    ended: (end) => {
      emulator.options.disableStdin = true;
      ended(end);
    },
  });
  const measure = () => {
    const size = fit.proposeDimensions();
    if (!size || !(size.cols > 1 && size.rows > 1)) return;
    connection.resize({ cols: Math.min(size.cols, MAX_SIZE.cols), rows: Math.min(size.rows, MAX_SIZE.rows) });
  };
  emulator.onData((text) => connection.type(text));
  emulator.onBinary((text) => connection.typeBytes(Uint8Array.from(text, (char) => char.charCodeAt(0))));
  emulator.attachCustomKeyEventHandler((event) => isForTerminal(emulator, event));
  const observer = new ResizeObserver(measure);
  observer.observe(place);
  const unwatch = useTheme.subscribe(() => {
    emulator.options.theme = themeOf(place);
  });
  measure();
  emulator.focus();
  return () => {
    unwatch();
    observer.disconnect();
    connection.close();
    emulator.dispose();
  };
}

/** False for keys that belong to the browser: copying a selection, pasting, and leaving the terminal. */
function isForTerminal(emulator: Terminal, event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  const command = (event.ctrlKey || event.metaKey) && !event.altKey;
  if (command && key === "c" && emulator.hasSelection()) return false;
  if (command && key === "v") return false;
  if (key === "f6" && event.type === "keydown") {
    event.preventDefault();
    leave(emulator);
    return false;
  }
  return true;
}

/** Moves the focus to the button that closes the panel, because Tab belongs to the shell. */
function leave(emulator: Terminal): void {
  const panel = emulator.element?.closest(".panel");
  panel?.querySelector<HTMLElement>(`.panel-head [aria-label="${texts.close}"]`)?.focus();
}

/**
 * xterm.js makes style elements while it opens, which the content security policy accepts only with the page's nonce. It has no
 * option for that, and its option for another document does not reach all of them.
 */
function withNonce(act: () => void): void {
  const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
  const create: CreateElement = Reflect.get(document, "createElement");
  const createWithNonce: CreateElement = (tag, options) => {
    const element = create.call(document, tag, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
  Object.defineProperty(document, "createElement", { configurable: true, value: createWithNonce });
  try {
    act();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** The names of the sixteen colours in their order. The page shows the output of commands in the same ones. */
const PALETTE = [
  "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
  "brightBlack", "brightRed", "brightGreen", "brightYellow", "brightBlue", "brightMagenta", "brightCyan", "brightWhite",
] as const satisfies (keyof ITheme)[];

function themeOf(place: HTMLElement): ITheme {
  const variable = (name: string) => colorOf(place, (probe) => { probe.style.color = `var(${name})`; });
  const theme: ITheme = {
    background: variable("--sunken"),
    foreground: variable("--ink"),
    cursor: variable("--accent"),
    cursorAccent: variable("--sunken"),
    selectionBackground: variable("--press"),
  };
  for (const [number, name] of PALETTE.entries()) theme[name] = colorOf(place, (probe) => { probe.className = `t-fg-${String(number)}`; });
  return theme;
}

/** The colour that a style has now, which depends on the theme. */
function colorOf(place: HTMLElement, style: (probe: HTMLElement) => void): string {
  const probe = document.createElement("span");
  style(probe);
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function styleOf(place: HTMLElement, name: string): string {
  return getComputedStyle(place).getPropertyValue(name).trim();
}
