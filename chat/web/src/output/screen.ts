// Interprets a command's output like a terminal, as far as a page can: colours, \r, \b, erase-in-line and moves
// within the line. Everything else (cursor addressing, titles, clipboard, device queries, …) is removed and has no
// effect. The output comes from inside a container, so every pattern here is linear and every count has a limit.
import { plainText } from "../ui/names";
import { Line, type Run } from "./line";
import { type Pen, PLAIN, withLink } from "./pen";
import { applySgr } from "./sgr";

/** Only the end of longer text is shown; the server keeps far less. */
export const MAX_CHARS = 256 * 1024;
/** Beyond this number of styled runs, earlier ones lose their colours, so that the page stays responsive. */
const MAX_STYLED_RUNS = 4000;
export const LINES_PER_BLOCK = 50;

/** A group of whole lines. Each ends with "\n", except possibly the last. Blocks are rendered and cached separately. */
export type Block = Run[];

// CSI (or the start of one at the end of the text) | OSC, up to BEL, ST or the end of its line | DCS, SOS, PM, APC |
// other escapes | single control characters, of which C1 CSI and OSC are replaced before.
const CONTROL =
  // eslint-disable-next-line no-control-regex -- the pattern matches control characters
  /\x1b\[([0-?]*)[ -/]*([@-~]|$)|\x1b\]([^\x07\x1b\n]*)(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]|\n/g;

export function readScreen(output: string): Block[] {
  const text = plainText(tailOf(output));
  const screen = new Screen();
  let from = 0;
  for (const match of text.matchAll(CONTROL)) {
    if (match.index > from) screen.write(text.slice(from, match.index));
    screen.control(match);
    from = match.index + match[0].length;
  }
  if (from < text.length) screen.write(text.slice(from));
  return screen.finish();
}

function tailOf(output: string): string {
  const tail = output.length > MAX_CHARS ? output.slice(-MAX_CHARS) : output;
  // The eight-bit forms of ESC [, ESC ] and ESC \.
  return /[\x9b\x9d\x9c]/.test(tail) ? tail.replace(/\x9b/g, "\x1b[").replace(/\x9d/g, "\x1b]").replace(/\x9c/g, "\x1b\\") : tail;
}

class Screen {
  private blocks: Block[] = [];
  private block: Block = [];
  private linesInBlock = 0;
  private line = new Line();
  private pen: Pen = PLAIN;

  write(text: string): void {
    this.line.write(text, this.pen);
  }

  control(match: RegExpExecArray): void {
    const [whole, parameters, final, osc] = match;
    if (whole === "\n") this.newline();
    else if (whole === "\r") this.line.carriageReturn();
    else if (whole === "\b") this.line.move(-1);
    else if (final) this.csi(final, parameters ?? "");
    else if (osc?.startsWith("8;")) this.pen = withLink(this.pen, osc.slice(osc.indexOf(";", 2) + 1));
  }

  finish(): Block[] {
    this.closeLine("");
    if (this.block.length > 0) this.blocks.push(this.block);
    return calm(this.blocks);
  }

  private csi(final: string, parameters: string): void {
    const first = Number.parseInt(parameters, 10);
    const count = Number.isNaN(first) ? 1 : first;
    if (final === "m" && /^[\d;:]*$/.test(parameters)) this.pen = applySgr(this.pen, parameters);
    else if (final === "K") this.line.erase(Number.isNaN(first) ? 0 : first);
    else if (final === "C") this.line.move(count);
    else if (final === "D") this.line.move(-count);
    else if (final === "G") this.line.moveTo(count - 1);
  }

  private newline(): void {
    this.closeLine("\n");
    this.line = new Line();
    this.linesInBlock += 1;
    if (this.linesInBlock < LINES_PER_BLOCK) return;
    this.blocks.push(this.block);
    this.block = [];
    this.linesInBlock = 0;
  }

  private closeLine(end: string): void {
    for (const run of this.line.finish()) append(this.block, run.text, run.pen);
    if (end) append(this.block, end, this.block.at(-1)?.pen ?? PLAIN);
  }
}

function append(block: Block, text: string, pen: Pen): void {
  const last = block.at(-1);
  if (last?.pen === pen) last.text += text;
  else block.push({ text, pen });
}

function calm(blocks: Block[]): Block[] {
  let runs = 0;
  return blocks.map((_, index) => {
    const block = blocks[blocks.length - 1 - index] ?? [];
    runs += block.length;
    return runs > MAX_STYLED_RUNS ? [{ text: block.map(({ text }) => text).join(""), pen: PLAIN }] : block;
  }).reverse();
}
