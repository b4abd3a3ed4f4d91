// A link may contain the token after `#token=`, which browsers never send to a server. It is stored for this tab and
// removed from the address bar and the history entry before anything else happens.
import { writeToken } from "./storage";

export function takeTokenFromAddress(): void {
  const fragment = new URLSearchParams(window.location.hash.slice(1));
  const token = fragment.get("token");
  if (token === null) return;
  fragment.delete("token");
  const rest = fragment.toString();
  const clean = window.location.pathname + window.location.search + (rest ? `#${rest}` : "");
  window.history.replaceState(window.history.state, "", clean);
  if (token.trim()) writeToken(token, false);
}
