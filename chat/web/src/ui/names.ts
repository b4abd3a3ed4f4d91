// Characters that change how other characters are displayed. A name such as `invoice<U+202E>fdp.sh` would be shown as
// `invoicehs.pdf`, and a command as a different one than the one that runs. So they are shown by their number
// instead.

/** Embeddings, overrides and isolates: the characters that also affect the characters after them. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
/**
 * In addition, characters that do not fit in one line or have no width. Joiners are allowed, because emoji use them.
 */
// eslint-disable-next-line no-control-regex -- the pattern matches control characters
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

const byNumber = (char: string) => `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;

/** Shows a text of several lines without characters that change how it is read. */
export function plainText(text: string): string {
  return text.replace(TURNING, byNumber);
}

/** The same for a name, a title or a path, which has one line. */
export function plainName(name: string): string {
  return name.replace(UNSEEN, byNumber);
}
