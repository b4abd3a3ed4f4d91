import { expect, it } from "vitest";
import type { ChatMessage, StoredChat } from "../api/types";
import { renewed, settled } from "./renewed";

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

it("shows of a running answer only what the page has received", () => {
  const running = (turnId: string | null): StoredChat => {
    const messages = [message("1", "a"), message("t", "stored")];
    return { id: "c", title: "", createdAt: "", updatedAt: "", model: null, messages, running: turnId !== null, turnId };
  };
  expect(settled(running("t"), [])).toEqual([message("1", "a")]);
  expect(settled(running("t"), [message("t", "more")])).toEqual([message("1", "a"), message("t", "more")]);
  expect(settled(running(null), [message("t", "more")])).toEqual([message("1", "a"), message("t", "stored")]);
});
