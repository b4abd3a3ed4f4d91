import { expect, it } from "vitest";
import { plainName, plainText } from "./names";

it("shows the bidi control characters of a name", () => {
  expect(plainName("invoice\u202efdp.sh")).toBe("invoice‹U+202E›fdp.sh");
  expect(plainName("two\nlines\u200b")).toBe("two‹U+000A›lines‹U+200B›");
});

it("keeps the lines of a text, and harmless characters", () => {
  expect(plainText("a\n\tb\u2066c")).toBe("a\n\tb‹U+2066›c");
  for (const name of ["grüße.txt", "שלום", "👩\u200d💻 crab 🦀", "two words"]) expect(plainName(name)).toBe(name);
});
