// Splits growing markdown where a new block certainly starts: after an empty line outside a code fence, at a line
// that does not belong to a list or quote. Too few splits cost a little time; a wrong split would change the
// rendering.

export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let block: string[] = [];
  let fence = "";
  let afterEmpty = false;
  for (const line of text.split("\n")) {
    if (!fence && afterEmpty && startsBlock(line) && !isEmpty(block)) {
      blocks.push(block.join("\n"));
      block = [];
    }
    fence = fenceAfter(line, fence);
    afterEmpty = line.trim() === "";
    block.push(line);
  }
  blocks.push(block.join("\n"));
  return blocks;
}

function startsBlock(line: string): boolean {
  return /^\S/.test(line) && !/^([-*+>]|\d+[.)])\s/.test(line);
}

/** Skips blocks that contain only empty lines. */
function isEmpty(block: string[]): boolean {
  return block.every((line) => line.trim() === "");
}

function fenceAfter(line: string, fence: string): string {
  const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
  if (mark === undefined) return fence;
  if (!fence) return mark;
  const closes = mark.startsWith(fence) && line.trim() === mark;
  return closes ? "" : fence;
}
