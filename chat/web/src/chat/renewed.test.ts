import { expect, it } from "vitest";
import type { ChatMessage } from "../api/types";
import { renewed } from "./renewed";

const message = (id: string, text: string): ChatMessage => ({ id, role: "user", parts: [{ type: "text", text }] });

it("keeps the objects of unchanged messages", () => {
  const before = [message("1", "a"), message("2", "b")];
  const after = renewed(before, [message("1", "a"), message("2", "changed"), message("3", "c")]);
  expect(after[0]).toBe(before[0]);
  expect(after[1]).not.toBe(before[1]);
  expect(after).toHaveLength(3);
});

it("returns the same list if nothing changed, and drops deleted messages", () => {
  const before = [message("1", "a"), message("2", "b")];
  expect(renewed(before, [message("1", "a"), message("2", "b")])).toBe(before);
  expect(renewed(before, [message("1", "a")])).toEqual([message("1", "a")]);
});
