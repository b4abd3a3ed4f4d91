// The mock plays nothing that the server does not do: ../../src/api/routes.rs keeps routes.json to what is there.
import { expect, it } from "vitest";
import { routes } from "./mock/api.mjs";
import listed from "./routes.json" with { type: "json" };

it("answers no route that the server does not have", () => {
  expect(Object.keys(routes).filter((route) => !listed.includes(route))).toEqual([]);
});

it("answers every route that the server has", () => {
  expect(listed.filter((route) => !Object.hasOwn(routes, route))).toEqual([]);
});
