// The panels around the chat. On a phone, the list of chats is a drawer and a panel is a sheet.
import { create } from "zustand";

export type PanelName = "files" | "terminal" | "session";

type Panels = { panel: PanelName | null; sidebar: boolean; drawer: boolean; palette: boolean };

const SIDEBAR_KEY = "sandboxd-chat:sidebar";

export const usePanel = create<Panels>(() => ({ panel: null, sidebar: readSidebar(), drawer: false, palette: false }));

export function togglePanel(panel: PanelName): void {
  usePanel.setState((state) => ({ panel: state.panel === panel ? null : panel }));
}

export function closePanel(): void {
  usePanel.setState({ panel: null });
}

export function toggleSidebar(): void {
  usePanel.setState(({ sidebar }) => ({ sidebar: !sidebar }));
  try {
    localStorage.setItem(SIDEBAR_KEY, usePanel.getState().sidebar ? "open" : "closed");
  } catch {
    // Storage is not available: the choice lasts until the page closes.
  }
}

export function setDrawer(drawer: boolean): void {
  usePanel.setState({ drawer });
}

export function setPalette(palette: boolean): void {
  usePanel.setState({ palette });
}

function readSidebar(): boolean {
  try {
    return localStorage.getItem(SIDEBAR_KEY) !== "closed";
  } catch {
    return true;
  }
}
