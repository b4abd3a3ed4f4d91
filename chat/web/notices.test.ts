import { expect, it } from "vitest";
import { objectionsTo, textOf } from "./notices.ts";

const one = { name: "a", version: "1.0.0", identifier: "MIT", text: "Copyright A" };

it("rejects a licence that is not allowed, and one without its text", () => {
  expect(objectionsTo(one)).toEqual([]);
  expect(objectionsTo({ ...one, identifier: "(GPL-3.0 OR MIT)" })).toEqual([]);
  expect(objectionsTo({ ...one, identifier: "GPL-3.0-only" })).toHaveLength(1);
  expect(objectionsTo({ name: "b", version: "1.0.0" })).toHaveLength(2);
});

it("lists each package with its licence", () => {
  expect(textOf([one])).toContain("  a 1.0.0 (MIT)\n");
  expect(textOf([one])).toContain("Copyright A");
});
