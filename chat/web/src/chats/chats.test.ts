import { describe, expect, it } from "vitest";
import type { ChatSummary } from "../api/types";
import { groupsOf } from "./groups";
import { joined } from "./store";

const chat = (id: string, updatedAt: string): ChatSummary => ({ id, title: id, createdAt: updatedAt, updatedAt, model: null });
const ids = (chats: ChatSummary[]) => chats.map(({ id }) => id).join("");

describe("groups", () => {
  it("use the day of the last change", () => {
    const now = new Date("2026-03-10T15:00:00");
    const groups = groupsOf([chat("a", "2026-03-10T01:00:00"), chat("b", "2026-03-09T23:00:00"), chat("c", "2026-03-05T10:00:00"), chat("d", "2025-01-01T10:00:00")], now);
    expect(groups.map(({ name, chats }) => `${name}: ${ids(chats)}`)).toEqual(["Today: a", "Yesterday: b", "Last 7 days: c", "Older: d"]);
  });
});

describe("a page of chats", () => {
  const before = { chats: [chat("a", "5"), chat("b", "4"), chat("c", "3"), chat("d", "2")], nextCursor: "after-d" };
  it("is appended to the existing list", () => {
    const page = { chats: [chat("e", "1")], nextCursor: null };
    expect(joined(before, page, false)).toEqual({ chats: [...before.chats, chat("e", "1")], nextCursor: null });
  });
  it("keeps the later pages when it is reloaded", () => {
    const page = { chats: [chat("d", "7"), chat("a", "5"), chat("b", "4")], nextCursor: "after-b" };
    const list = joined(before, page, true);
    expect([ids(list.chats), list.nextCursor]).toEqual(["dabc", "after-d"]);
  });
  it("drops chats that were deleted elsewhere when it is reloaded", () => {
    const page = { chats: [chat("a", "5"), chat("c", "3")], nextCursor: "after-c" };
    expect(ids(joined(before, page, true).chats)).toBe("acd");
  });
  it("replaces the list if it is the only page", () => {
    expect(joined(before, { chats: [chat("z", "9")], nextCursor: null }, true)).toEqual({ chats: [chat("z", "9")], nextCursor: null });
  });
});
