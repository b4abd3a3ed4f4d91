import { expect, it } from "vitest";
import { ago, bytes, duration } from "./format";

it("formats sizes", () => {
  expect([0, 1023, 1024, 1536, 137 * 1024 ** 2, 2 * 1024 ** 3].map(bytes)).toEqual(["0 B", "1023 B", "1 KiB", "1.5 KiB", "137 MiB", "2 GiB"]);
});

it("formats durations", () => {
  expect([-5, 420, 12_900, 185_000, 7_800_000].map(duration)).toEqual(["0.0 s", "0.4 s", "12 s", "3 min 05 s", "2 h 10 min"]);
});

it("formats relative times", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  expect(ago("2026-01-01T11:55:00Z", now)).toBe("5 minutes ago");
  expect(ago("2026-01-01T14:00:00Z", now)).toBe("in 2 hours");
  expect(ago("soon", now)).toBe("soon");
});
