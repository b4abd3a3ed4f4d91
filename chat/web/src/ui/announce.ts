// Announcements for screen readers, in one polite region for the whole page, and transient error messages that are
// visible to everyone for a moment.
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

/** For a failure that is not shown anywhere else. */
export function complain(complaint: string): void {
  clearTimeout(timer);
  useAnnouncement.setState({ complaint });
  timer = setTimeout(dismissComplaint, SHOWN_MS);
}

export function dismissComplaint(): void {
  useAnnouncement.setState({ complaint: null });
}
