import { describe, expect, it } from "vitest";
import { LINES_PER_BLOCK, readScreen } from "./screen";

const ESC = "\u001b";
const runs = (output: string) => readScreen(output).flat();
const textOf = (output: string) => runs(output).map(({ text }) => text).join("");

describe("plain text", () => {
  it("is unchanged", () => {
    expect(textOf("a\n\tb <script>\n")).toBe("a\n\tb <script>\n");
  });
  it("contains no bidi control characters", () => {
    expect(textOf("rm \u202eoto")).toBe("rm ‹U+202E›oto");
  });
  it("is split into blocks of lines that stay the same while text is appended", () => {
    const many = "x\n".repeat(LINES_PER_BLOCK * 2 + 1);
    expect(readScreen(many)).toHaveLength(3);
    expect(readScreen(`${many}more`)[0]).toEqual(readScreen(many)[0]);
  });
});

describe("colours", () => {
  it("supports 16 colours, 256 colours and true colour", () => {
    const [a, b, c, d] = runs(`${ESC}[31ma${ESC}[95mb${ESC}[38;5;208mc${ESC}[48;2;1;2;3md`);
    expect([a?.pen.fg, b?.pen.fg, c?.pen.fg, d?.pen.bg]).toEqual(["1", "13", "#ff8700", "#010203"]);
  });
  it("accepts colons within one attribute", () => {
    const [a] = runs(`${ESC}[38:2::255:128:0;4:3ma`);
    expect(a?.pen).toMatchObject({ fg: "#ff8000", underline: true });
  });
  it("clears the style on a reset and keeps it across lines", () => {
    expect(runs(`${ESC}[1mone\ntwo${ESC}[0m!`).map(({ text, pen }) => [text, pen.bold])).toEqual([
      ["one\ntwo", true],
      ["!", false],
    ]);
  });
  it("ignores invalid colour numbers", () => {
    expect(runs(`${ESC}[38;5;999ma`)[0]?.pen.fg).toBeNull();
  });
  it("drops colours, not text, when there are too many of them", () => {
    const many = Array.from({ length: 9000 }, (_, n) => `${ESC}[38;5;${n % 250}mx`).join("");
    const hostile = `${many}\n`.repeat(LINES_PER_BLOCK);
    expect(runs(hostile).length).toBeLessThan(10);
    expect(textOf(many)).toHaveLength(9000);
  });
});

describe("the cursor within a line", () => {
  it("overwrites after a carriage return, as in progress bars", () => {
    expect(textOf(" 10%\r 20%\r100%\ndone")).toBe("100%\ndone");
  });
  it("keeps the rest of the line after a shorter text", () => {
    expect(textOf("abcdef\rXY")).toBe("XYcdef");
  });
  it("erases within the line", () => {
    expect(textOf(`abcdef\rXY${ESC}[K`)).toBe("XY");
    expect(textOf(`abc${ESC}[2K\rz`)).toBe("z");
  });
  it("moves back by one with a backspace", () => {
    expect(textOf("12\b3")).toBe("13");
  });
  it("treats \\r\\n as a line end", () => {
    expect(textOf("a\r\nb\r\n")).toBe("a\nb\n");
  });
});

describe("everything else", () => {
  it("is removed", () => {
    expect(textOf(`a${ESC}[2J${ESC}[5;5H${ESC}]0;title\u0007b${ESC}Pq#0${ESC}\\c${ESC}(B\u0000\u0007d`)).toBe("abcd");
    expect(textOf(`a\u009b31mb\u009d0;t\u009cc`)).toBe("abc");
  });
  it("does not show an incomplete sequence at the end", () => {
    expect(textOf(`ok${ESC}[3`)).toBe("ok");
    expect(textOf(`ok${ESC}`)).toBe("ok");
  });
  it("removes only its own line with an unfinished OSC", () => {
    expect(textOf(`${ESC}]52;c;AAAA\nnext`)).toBe("\nnext");
  });
});

describe("links", () => {
  it("are kept for http and https only", () => {
    const link = (uri: string) => runs(`${ESC}]8;;${uri}${ESC}\\here${ESC}]8;;${ESC}\\`)[0]?.pen.href;
    expect(link("https://example.org/a")).toBe("https://example.org/a");
    expect(link("javascript:alert(1)")).toBeNull();
    expect(link("file:///etc/passwd")).toBeNull();
  });
});

describe("hostile output", () => {
  it.each([
    ["escapes", `${ESC}[`.repeat(50_000)],
    ["one endless sequence", `${ESC}[${"1;".repeat(100_000)}é`],
    ["unfinished OSC", `${ESC}]`.repeat(50_000)],
    ["carriage returns", "ab\r".repeat(60_000)],
    ["backspaces", `x${"\b".repeat(100_000)}`],
    ["erases", `abc${ESC}[1K`.repeat(30_000)],
    ["moves", `${ESC}[99999999C`.repeat(10_000)],
  ])("with many %s is read in well under a second", (_, output) => {
    const started = performance.now();
    readScreen(output);
    expect(performance.now() - started).toBeLessThan(1000);
  });
});
