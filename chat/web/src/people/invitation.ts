// A link may contain an invitation after `#invitation=`, which browsers never send to a server. After a failed sign-in with the
// identity provider, `#sign-in-error=` says why. Both are removed from the address bar and the history entry, and kept as long
// as the page.

let invitation = "";
let failure: string | null = null;

export function takeInvitationFromAddress(): void {
  const fragment = new URLSearchParams(window.location.hash.slice(1));
  const given = fragment.get("invitation");
  const failed = fragment.get("sign-in-error");
  if (given === null && failed === null) return;
  fragment.delete("invitation");
  fragment.delete("sign-in-error");
  const rest = fragment.toString();
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search + (rest ? `#${rest}` : ""));
  invitation = given?.trim() ?? "";
  failure = failed;
}

/** Why the sign-in with the identity provider failed, if this page shows its end. */
export function failureOfAddress(): string | null {
  return failure;
}

export function invitationOfAddress(): string {
  return invitation;
}

export function linkOf(secret: string): string {
  return `${window.location.origin}/#${new URLSearchParams({ invitation: secret }).toString()}`;
}
