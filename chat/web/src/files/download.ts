// Saves a file. A plain link streams to disk, but cannot send the token or a temporary chat's ticket. If one of those
// is needed, the file is first loaded into memory.
import { contentPath, fetchContent, needsHeaders } from "../api/files";
import type { FileEntry } from "../api/types";

export async function download(chatId: string, entry: Pick<FileEntry, "name" | "path">): Promise<void> {
  if (!needsHeaders(chatId)) {
    save(contentPath(chatId, entry.path), entry.name);
    return;
  }
  const response = await fetchContent(chatId, entry.path);
  const url = URL.createObjectURL(await response.blob());
  save(url, entry.name);
  // The browser must have started reading before the URL is revoked.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function save(href: string, name: string): void {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}
