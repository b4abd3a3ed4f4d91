// Characters that change how other characters read. A name such as `invoice<U+202E>fdp.sh` would be shown as
// `invoicehs.pdf`, and a command as another one than runs, so they are shown by their number instead.

/** Embeddings, overrides and isolates: those that hold beyond the characters they belong to. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
/** Besides those, what has no place in one line, or no width. Joiners have: emoji are made with them. */
// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

const byNumber = (char: string) => `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;

/** A text of many lines with nothing in it that turns around what is read. */
export function plainText(text: string): string {
  return text.replace(TURNING, byNumber);
}

/** The same for a name, a title or a path, which has one line. */
export function plainName(name: string): string {
  return name.replace(UNSEEN, byNumber);
}
