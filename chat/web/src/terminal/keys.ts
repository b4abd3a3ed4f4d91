// Keys in a terminal that belong to the browser and not to the shell.
import type { Terminal } from "@xterm/xterm";
import { texts } from "../texts";

const IS_MAC = /mac|iphone|ipad/i.test(navigator.userAgent);

/** False for copying a selection, pasting, and leaving the terminal. On a Mac, the first two are not keys of a shell. */
export function isForTerminal(emulator: Terminal, event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  const control = event.ctrlKey && !event.altKey && !event.shiftKey && !event.metaKey && !IS_MAC;
  if (control && key === "c" && emulator.hasSelection()) return false;
  if (control && key === "v") return false;
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
