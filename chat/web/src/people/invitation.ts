// A link may contain an invitation after `#invitation=`, which browsers never send to a server. It is removed from the
// address bar and the history entry, and kept as long as the page.

let invitation = "";

export function takeInvitationFromAddress(): void {
  const fragment = new URLSearchParams(window.location.hash.slice(1));
  const given = fragment.get("invitation");
  if (given === null) return;
  fragment.delete("invitation");
  const rest = fragment.toString();
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search + (rest ? `#${rest}` : ""));
  invitation = given.trim();
}

export function invitationOfAddress(): string {
  return invitation;
}

export function linkOf(secret: string): string {
  return `${window.location.origin}/#${new URLSearchParams({ invitation: secret }).toString()}`;
}
