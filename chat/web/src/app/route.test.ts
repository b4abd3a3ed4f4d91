import { expect, it } from "vitest";
import { pathOf, routeOf } from "./route";

it("reads the two addresses, and a temporary chat from its history entry", () => {
  expect(routeOf("/", null)).toEqual({ name: "home" });
  expect(routeOf("/c/Ab-9_", null)).toEqual({ name: "chat", id: "Ab-9_" });
  expect(routeOf("/", { temporary: "tmp_1" })).toEqual({ name: "temporary", id: "tmp_1" });
});

it("takes anything else for the empty page", () => {
  for (const path of ["/c/", "/c/a/b", "/c/../x", `/c/${"a".repeat(65)}`, "/c/<script>"]) {
    expect(routeOf(path, null)).toEqual({ name: "home" });
  }
});

it("writes what it reads", () => {
  expect(pathOf({ name: "chat", id: "x" })).toBe("/c/x");
  expect(pathOf({ name: "temporary", id: "tmp_1" })).toBe("/");
});
