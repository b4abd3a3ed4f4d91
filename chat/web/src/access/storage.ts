// Stores the LAN token: for this tab, or for this browser if the user chooses that. Never both.
const SESSION_KEY = "remcochat:lanAdminToken:session";
const BROWSER_KEY = "remcochat:lanAdminToken";

export type KeptToken = { token: string; remembered: boolean };

/** If the browser denies storage, the token lasts as long as the page. */
let unkept = "";

export function readToken(): KeptToken {
  const session = get(() => window.sessionStorage, SESSION_KEY);
  if (session) return { token: session, remembered: false };
  const browser = get(() => window.localStorage, BROWSER_KEY);
  return browser ? { token: browser, remembered: true } : { token: unkept, remembered: false };
}

/** An empty token clears both stores. */
export function writeToken(raw: string, remember: boolean): KeptToken {
  const token = raw.trim();
  const inSession = set(() => window.sessionStorage, SESSION_KEY, remember ? "" : token);
  const inBrowser = set(() => window.localStorage, BROWSER_KEY, remember ? token : "");
  unkept = (remember ? inBrowser : inSession) ? "" : token;
  return { token, remembered: remember && token !== "" };
}

// If storage is disabled, even accessing the property throws.
function get(storage: () => Storage, key: string): string {
  try {
    return storage().getItem(key)?.trim() ?? "";
  } catch {
    return "";
  }
}

function set(storage: () => Storage, key: string, value: string): boolean {
  try {
    if (value) storage().setItem(key, value);
    else storage().removeItem(key);
    return true;
  } catch {
    return false;
  }
}
