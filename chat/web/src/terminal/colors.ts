// The page's colours for xterm.js, which needs values and no variables.
import type { ITheme } from "@xterm/xterm";

/** The names of the sixteen colours in their order. The page shows the output of commands in the same ones. */
const PALETTE = [
  "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
  "brightBlack", "brightRed", "brightGreen", "brightYellow", "brightBlue", "brightMagenta", "brightCyan", "brightWhite",
] as const satisfies (keyof ITheme)[];

export function themeOf(place: HTMLElement): ITheme {
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
