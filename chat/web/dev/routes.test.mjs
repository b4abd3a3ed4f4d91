// The mock has the same routes as the server: ../../src/api/routes.rs checks routes.json against the server.
import { expect, it } from "vitest";
import { routes } from "./mock/api.mjs";
import listed from "./routes.json" with { type: "json" };

it("has no route that the server does not have", () => {
  expect(Object.keys(routes).filter((route) => !listed.includes(route))).toEqual([]);
});

it("has every route that the server has", () => {
  expect(listed.filter((route) => !Object.hasOwn(routes, route))).toEqual([]);
});
