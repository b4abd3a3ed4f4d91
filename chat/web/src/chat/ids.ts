/** 22 characters of [A-Za-z0-9_-], 132 random bits. crypto.randomUUID does not exist on a LAN page over plain http. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(22));
  return [...bytes].map((byte) => ALPHABET[byte & 63]).join("");
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
