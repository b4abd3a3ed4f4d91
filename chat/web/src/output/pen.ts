// The style that a terminal writes with: the colours and decorations that SGR sequences set (ECMA-48 8.3.117). Pens
// are interned, so two runs of text in the same style share one object and compare by identity.

/** "0".."15" is a colour of the theme's palette; "#rrggbb" is an exact colour. */
export type Color = string;

export type Pen = Readonly<{
  fg: Color | null;
  bg: Color | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  reverse: boolean;
  hidden: boolean;
  /** The target of an OSC 8 link; only http and https are accepted. */
  href: string | null;
}>;

export const PLAIN: Pen = Object.freeze({
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  reverse: false,
  hidden: false,
  href: null,
});

/** Output may contain millions of colours; at this number of pens the table is cleared. */
const MAX_PENS = 4096;
const pens = new Map<string, Pen>();

export function intern(pen: Pen): Pen {
  const key = Object.values(pen).join("|");
  if (key === PLAIN_KEY) return PLAIN;
  const known = pens.get(key);
  if (known) return known;
  if (pens.size >= MAX_PENS) pens.clear();
  const fresh = Object.freeze({ ...pen });
  pens.set(key, fresh);
  return fresh;
}

const PLAIN_KEY = Object.values(PLAIN).join("|");

const MAX_HREF = 2048;

export function withLink(pen: Pen, uri: string): Pen {
  const href = uri.length <= MAX_HREF && /^https?:\/\/[^\s]+$/i.test(uri) ? uri : null;
  return href === pen.href ? pen : intern({ ...pen, href });
}
