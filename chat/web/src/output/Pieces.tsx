// Renders runs of text as spans: palette colours by class, so that themes can set them; exact colours by style.
import type { CSSProperties } from "react";
import { type Color, type Pen, PLAIN } from "./pen";
import type { Block } from "./screen";

export function Pieces({ block }: { block: Block }) {
  return block.map(({ text, pen }, index) => {
    if (pen === PLAIN) return text;
    const { className, style } = looks(pen);
    if (!pen.href) return <span key={index} className={className} style={style}>{text}</span>;
    return (
      <a key={index} className={className} style={style} href={pen.href} target="_blank" rel="noopener noreferrer">
        {text}
      </a>
    );
  });
}

type Looks = { className: string; style: CSSProperties };
const known = new WeakMap<Pen, Looks>();

function looks(pen: Pen): Looks {
  const before = known.get(pen);
  if (before) return before;
  const classes: string[] = [];
  const style: CSSProperties = {};
  const fg = pen.reverse ? (pen.bg ?? "reverse") : pen.fg;
  const bg = pen.reverse ? (pen.fg ?? "reverse") : pen.bg;
  paint(fg, "fg", classes, (color) => (style.color = bg === null ? readable(color) : color));
  paint(bg, "bg", classes, (color) => (style.backgroundColor = color));
  for (const name of ["bold", "dim", "italic", "underline", "strike", "hidden"] as const) {
    if (pen[name]) classes.push(`t-${name}`);
  }
  const result = { className: classes.join(" "), style };
  known.set(pen, result);
  return result;
}

/**
 * Programs choose exact colours for a dark screen; on the page's panes they are blended slightly with the text
 * colour.
 */
function readable(color: Color): string {
  return `light-dark(color-mix(in oklab, ${color} 58%, black), color-mix(in oklab, ${color} 88%, white))`;
}

function paint(color: Color | null, where: "fg" | "bg", classes: string[], exact: (color: string) => void): void {
  if (color?.startsWith("#")) exact(color);
  else if (color) classes.push(`t-${where}-${color}`);
}
