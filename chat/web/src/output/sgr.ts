// Select Graphic Rendition: applies the numbers of one `ESC [ … m` to a pen.
import { type Color, intern, type Pen, PLAIN } from "./pen";

/** A sequence rarely has ten numbers; the rest of a longer one is ignored. */
const MAX_PARAMETERS = 32;

type Draft = { -readonly [K in keyof Pen]: Pen[K] };

/** `parameters` is the text between `ESC [` and `m`, for example `1;38;5;208`. */
export function applySgr(pen: Pen, parameters: string): Pen {
  const numbers = numbersOf(parameters);
  const draft: Draft = { ...pen };
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    if (code === 38 || code === 48) {
      const { color, used } = extendedColor(numbers, at + 1);
      if (color) draft[code === 38 ? "fg" : "bg"] = color;
      at += used;
    } else {
      applyOne(draft, code);
    }
  }
  return intern(draft);
}

/** Colons separate the parts of one attribute (`38:2::r:g:b`, `4:3`); an empty colour space between them is dropped. */
function numbersOf(parameters: string): number[] {
  const plain = parameters.replace(/([34]8:2):[0-9]*:(?=\d+:\d+:\d+)/g, "$1:").replace(/\b4:[0-5]/g, underlineCode);
  return plain.split(/[;:]/, MAX_PARAMETERS).map((part) => (part === "" ? 0 : Number(part)));
}

function underlineCode(match: string): string {
  return match === "4:0" ? "24" : "4";
}

function extendedColor(numbers: number[], at: number): { color: Color | null; used: number } {
  const mode = numbers[at];
  if (mode === 5) return { color: paletteColor(numbers[at + 1]), used: 2 };
  if (mode === 2) return { color: hexColor(numbers.slice(at + 1, at + 4)), used: 4 };
  return { color: null, used: 1 };
}

const CUBE = [0, 95, 135, 175, 215, 255];

function paletteColor(index: number | undefined): Color | null {
  if (index === undefined || !Number.isInteger(index) || index < 0 || index > 255) return null;
  if (index < 16) return String(index);
  if (index >= 232) return hexColor(Array<number>(3).fill(8 + (index - 232) * 10));
  const cube = index - 16;
  return hexColor([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((step) => CUBE[step] ?? 0));
}

function hexColor(rgb: number[]): Color | null {
  if (rgb.length !== 3 || rgb.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return null;
  return `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

function applyOne(draft: Draft, code: number): void {
  if (code >= 30 && code <= 37) draft.fg = String(code - 30);
  else if (code >= 90 && code <= 97) draft.fg = String(code - 82);
  else if (code >= 40 && code <= 47) draft.bg = String(code - 40);
  else if (code >= 100 && code <= 107) draft.bg = String(code - 92);
  else applyDecoration(draft, code);
}

function applyDecoration(draft: Draft, code: number): void {
  switch (code) {
    case 0:
      Object.assign(draft, { ...PLAIN, href: draft.href });
      break;
    case 1: draft.bold = true; break;
    case 2: draft.dim = true; break;
    case 3: draft.italic = true; break;
    case 4: draft.underline = true; break;
    case 7: draft.reverse = true; break;
    case 8: draft.hidden = true; break;
    case 9: draft.strike = true; break;
    case 22: draft.bold = draft.dim = false; break;
    case 23: draft.italic = false; break;
    case 24: draft.underline = false; break;
    case 27: draft.reverse = false; break;
    case 28: draft.hidden = false; break;
    case 29: draft.strike = false; break;
    case 39: draft.fg = null; break;
    case 49: draft.bg = null; break;
    // Blinking, fonts and frames are ignored on purpose.
  }
}
