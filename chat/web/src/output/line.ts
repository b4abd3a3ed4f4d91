// One line of output. Nearly every line is only appended to, so it is stored as runs. When something first moves the
// cursor back (\r, \b), it becomes a row of cells that can be overwritten.
import { type Pen, PLAIN } from "./pen";

export type Run = { text: string; pen: Pen };

type Cell = { char: string; pen: Pen };
const BLANK: Cell = { char: " ", pen: PLAIN };

/** The maximum distance of the cursor to the right of the text. */
const MAX_COLUMN = 1000;

export class Line {
  private runs: Run[] = [];
  private cells: Cell[] | null = null;
  private cursor = 0;

  write(text: string, pen: Pen): void {
    if (this.cells) {
      this.overwrite(this.cells, text, pen);
      return;
    }
    const last = this.runs.at(-1);
    if (last?.pen === pen) last.text += text;
    else this.runs.push({ text, pen });
  }

  carriageReturn(): void {
    this.moveTo(0);
  }

  /** Columns relative to the cursor. */
  move(by: number): void {
    const { length } = this.asCells();
    this.moveTo(Math.min(this.cursor + by, Math.max(length, MAX_COLUMN)));
  }

  moveTo(column: number): void {
    const { length } = this.asCells();
    this.cursor = Math.max(0, Math.min(column, Math.max(length, MAX_COLUMN)));
  }

  /** EL: 0 from the cursor to the end, 1 up to the cursor, 2 the whole line. */
  erase(mode: number): void {
    const cells = this.asCells();
    if (mode === 0) cells.length = Math.min(cells.length, this.cursor);
    else if (mode === 2) cells.length = 0;
    else if (mode === 1) cells.fill(BLANK, Math.max(0, this.cursor - MAX_COLUMN), this.cursor + 1);
  }

  finish(): Run[] {
    return this.cells ? runsOf(this.cells) : this.runs;
  }

  private asCells(): Cell[] {
    if (!this.cells) {
      this.cells = this.runs.flatMap(({ text, pen }) => Array.from(text, (char) => ({ char, pen })));
      this.cursor = this.cells.length;
    }
    return this.cells;
  }

  private overwrite(cells: Cell[], text: string, pen: Pen): void {
    while (cells.length < this.cursor) cells.push(BLANK);
    for (const char of text) {
      cells[this.cursor] = { char, pen };
      this.cursor += 1;
    }
  }
}

function runsOf(cells: Cell[]): Run[] {
  const runs: Run[] = [];
  for (const { char, pen } of cells) {
    const last = runs.at(-1);
    if (last?.pen === pen) last.text += char;
    else runs.push({ text: char, pen });
  }
  return runs;
}
