// Light, dark or the system's theme. The choice is stored in this browser; without a choice, the system's theme
// applies.
import { create } from "zustand";

export type Theme = "system" | "light" | "dark";
const KEY = "sandboxd-chat:theme";
const ORDER: Theme[] = ["system", "light", "dark"];

export const useTheme = create<{ theme: Theme }>(() => ({ theme: readTheme() }));

export function nextTheme(): void {
  const { theme } = useTheme.getState();
  setTheme(ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system");
}

function setTheme(theme: Theme): void {
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage is not available: the choice lasts until the page closes.
  }
  applyTheme(theme);
  useTheme.setState({ theme });
}

export function applyTheme(theme: Theme = useTheme.getState().theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

function readTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}
