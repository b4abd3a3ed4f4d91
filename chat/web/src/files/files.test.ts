import { describe, expect, it } from "vitest";
import { imageType, textOf } from "./content";
import { foldersFirst } from "./folder";
import type { FileEntry } from "../api/types";

const encode = (text: string) => new TextEncoder().encode(text);

describe("a file's content", () => {
  it("is text if it decodes as text, also with an incomplete last character", () => {
    expect(textOf(encode("grüße"), false)).toEqual({ kind: "text", text: "grüße", clipped: false });
    expect(textOf(encode("grü").subarray(0, 3), true)).toEqual({ kind: "text", text: "gr", clipped: true });
  });
  it("is binary otherwise", () => {
    expect(textOf(new Uint8Array([0xff, 0xfe]), false).kind).toBe("binary");
    expect(textOf(encode("a\0b"), false).kind).toBe("binary");
    expect(textOf(encode("grü").subarray(0, 3), false).kind).toBe("binary");
  });
  it("is an image for four types only, and never for svg", () => {
    expect(["a.PNG", "b.jpeg", "c.gif", "d.webp", "e.svg", "f.html"].map(imageType)).toEqual(["image/png", "image/jpeg", "image/gif", "image/webp", null, null]);
  });
});

it("lists folders first, then by name", () => {
  const entry = (name: string, type: FileEntry["type"]): FileEntry => ({ name, path: name, type, size: null, modifiedAt: null });
  const names = foldersFirst([entry("b", "file"), entry("z", "directory"), entry("a", "link")]).map(({ name }) => name);
  expect(names).toEqual(["z", "a", "b"]);
});
