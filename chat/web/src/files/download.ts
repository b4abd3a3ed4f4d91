// Saves a file. A plain link streams to disk, but cannot carry the token or a temporary chat's ticket; with one of
// those the file goes through memory first.
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
  // The browser has to have begun reading before the address may go.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function save(href: string, name: string): void {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}
