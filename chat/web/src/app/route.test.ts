import { expect, it } from "vitest";
import { pathOf, routeOf } from "./route";

it("parses the two routes, and a temporary chat from its history entry", () => {
  expect(routeOf("/", null)).toEqual({ name: "home" });
  expect(routeOf("/c/Ab-9_", null)).toEqual({ name: "chat", id: "Ab-9_" });
  expect(routeOf("/", { temporary: "tmp_1" })).toEqual({ name: "temporary", id: "tmp_1" });
});

it("treats any other path as the empty page", () => {
  for (const path of ["/c/", "/c/a/b", "/c/../x", `/c/${"a".repeat(65)}`, "/c/<script>"]) {
    expect(routeOf(path, null)).toEqual({ name: "home" });
  }
});

it("formats what it parses", () => {
  expect(pathOf({ name: "chat", id: "x" })).toBe("/c/x");
  expect(pathOf({ name: "temporary", id: "tmp_1" })).toBe("/");
});
