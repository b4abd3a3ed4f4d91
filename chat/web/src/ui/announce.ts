// What is said to people who listen instead of look, with one polite voice for the whole page; and what went wrong in
// passing, which everybody should see for a moment.
import { create } from "zustand";

const SHOWN_MS = 6000;

export const useAnnouncement = create<{ text: string; turn: number; complaint: string | null }>(() => ({
  text: "",
  turn: 0,
  complaint: null,
}));

let timer: ReturnType<typeof setTimeout> | undefined;

export function announce(text: string): void {
  useAnnouncement.setState(({ turn }) => ({ text, turn: turn + 1 }));
}

/** For a failure that has no better place to be shown. */
export function complain(complaint: string): void {
  clearTimeout(timer);
  useAnnouncement.setState({ complaint });
  timer = setTimeout(dismissComplaint, SHOWN_MS);
}

export function dismissComplaint(): void {
  useAnnouncement.setState({ complaint: null });
}
