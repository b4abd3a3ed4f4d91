// Which dialog of accounts is open, and what happens when the user changes.
import { create } from "zustand";
import { signOut } from "../api/people";
import { forgetAllQueued } from "../chat/queued";

export const usePeople = create<{ dialog: "account" | "people" | null }>(() => ({ dialog: null }));

export function openPeopleDialog(dialog: "account" | "people" | null): void {
  usePeople.setState({ dialog });
}

/** Loads the page again, so that nothing of one user is left in memory for the next one. */
export function startOver(): void {
  forgetAllQueued();
  window.location.assign("/");
}

export async function leave(): Promise<void> {
  // A session that has ended already is as good.
  await signOut().catch(() => undefined);
  startOver();
}
