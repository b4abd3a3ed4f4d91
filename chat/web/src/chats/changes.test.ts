import { afterEach, expect, it, vi } from "vitest";
import { read } from "./changes";

afterEach(() => vi.unstubAllGlobals());

function serve(...pieces: string[]): void {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  });
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body)));
}

async function heard(...pieces: string[]): Promise<(string | null)[]> {
  serve(...pieces);
  const all: (string | null)[] = [];
  await read((chat) => all.push(chat), new AbortController().signal);
  return all;
}

it("reads lines however they arrive, and ignores those that only break the silence", async () => {
  expect(await heard('{"chat":null}\n', "\n", '{"ch', 'at":"a"}\n{"chat":"b"}\n', '{"chat":"cut')).toEqual([null, "a", "b"]);
});

it("fails if the server refuses", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response('{"error":"full","code":"capacity_exhausted"}', { status: 429 })));
  await expect(read(() => undefined, new AbortController().signal)).rejects.toThrow();
});
