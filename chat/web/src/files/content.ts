// Reads a file for display: text as text, never as HTML; four image types as images; anything else is not displayed.
import { fetchContent } from "../api/files";

export const MAX_TEXT_BYTES = 256 * 1024;
const MAX_IMAGE_BYTES = 20 * 1024 * 1024;

const IMAGE_TYPES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

export type Content =
  | { kind: "text"; text: string; clipped: boolean }
  | { kind: "image"; url: string }
  | { kind: "bigImage" }
  | { kind: "binary" };

export function imageType(name: string): string | null {
  return IMAGE_TYPES[name.slice(name.lastIndexOf(".") + 1).toLowerCase()] ?? null;
}

export async function readContent(chatId: string, path: string, size: number | null, signal: AbortSignal): Promise<Content> {
  const type = imageType(path);
  if (type !== null && (size ?? 0) > MAX_IMAGE_BYTES) return { kind: "bigImage" };
  const response = await fetchContent(chatId, path, signal);
  if (type !== null) {
    // The page decides the type, not the sandbox: a blob of type image/png is never run as a page.
    const blob = new Blob([await response.arrayBuffer()], { type });
    return { kind: "image", url: URL.createObjectURL(blob) };
  }
  const { bytes, clipped } = await firstBytes(response, MAX_TEXT_BYTES);
  return textOf(bytes, clipped);
}

async function firstBytes(response: Response, limit: number): Promise<{ bytes: Uint8Array; clipped: boolean }> {
  const reader = response.body?.getReader();
  const bytes = new Uint8Array(limit);
  let length = 0;
  for (;;) {
    const chunk = await reader?.read();
    if (!chunk || chunk.done) return { bytes: bytes.subarray(0, length), clipped: false };
    const fits = chunk.value.subarray(0, limit - length);
    bytes.set(fits, length);
    length += fits.length;
    if (fits.length < chunk.value.length) {
      await reader?.cancel();
      return { bytes, clipped: true };
    }
  }
}

export function textOf(bytes: Uint8Array, clipped: boolean): Content {
  if (bytes.includes(0)) return { kind: "binary" };
  try {
    // With `stream`, only a character that the limit has cut is accepted as incomplete.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: clipped });
    return { kind: "text", text, clipped };
  } catch {
    return { kind: "binary" };
  }
}
