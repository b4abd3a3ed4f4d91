// A chat's files. Uploads use XMLHttpRequest, because it is the only API that reports upload progress.
import { chatPath } from "./chats";
import { credentialHeaders, pageHeaders } from "./credentials";
import { ApiError, isNotFound, isRecord, unreachable } from "./error";
import { noteRefusal, request, requestJson } from "./http";
import { texts } from "../texts";
import type { FilePage } from "./types";

export function listFiles(chatId: string, path: string, cursor: string | null): Promise<FilePage> {
  const query = new URLSearchParams({ path });
  if (cursor) query.set("cursor", cursor);
  return requestJson<FilePage>(`${chatPath(chatId)}/files?${query.toString()}`, { chatId }).catch((thrown: unknown) => {
    // A chat that does not exist has no sandbox.
    if (path === "" && isNotFound(thrown)) return { path, entries: [], nextCursor: null, sandbox: false };
    throw thrown;
  });
}

export async function deleteFile(chatId: string, path: string): Promise<void> {
  await request(`${chatPath(chatId)}/files?${new URLSearchParams({ path }).toString()}`, { method: "DELETE", chatId });
}

export function contentPath(chatId: string, path: string): string {
  return `${chatPath(chatId)}/files/content?${new URLSearchParams({ path }).toString()}`;
}

export function fetchContent(chatId: string, path: string, signal?: AbortSignal): Promise<Response> {
  return request(contentPath(chatId, path), signal ? { chatId, signal } : { chatId });
}

/** True if a plain link would be rejected, because the file needs a header that only fetch can send. */
export function needsHeaders(chatId: string): boolean {
  return Object.keys(credentialHeaders(chatId)).length > 0;
}

export type Upload = { done: Promise<void>; cancel: () => void };

export function uploadFile(chatId: string, path: string, file: File, onProgress: (sent: number) => void): Upload {
  const xhr = new XMLHttpRequest();
  const done = new Promise<void>((resolve, reject) => {
    xhr.open("PUT", contentPath(chatId, path));
    for (const [name, value] of Object.entries(pageHeaders(chatId))) xhr.setRequestHeader(name, value);
    xhr.setRequestHeader("content-type", "application/octet-stream");
    xhr.upload.onprogress = (event) => onProgress(event.loaded);
    xhr.onload = () => (xhr.status < 300 ? resolve() : reject(refusalOf(xhr)));
    xhr.onerror = () => void whyBroken(file).then(reject);
    xhr.onabort = () => reject(new ApiError(0, "cancelled", texts.files.cancelled));
    xhr.send(file);
  });
  return { done, cancel: () => xhr.abort() };
}

/** A dropped folder, or a file that was removed meanwhile, fails in the same way as an unreachable server. */
function whyBroken(file: File): Promise<ApiError> {
  const unreadable = () => new ApiError(0, "unreadable", texts.files.unreadable);
  return file.slice(0, 1).arrayBuffer().then(unreachable, unreadable);
}

function refusalOf(xhr: XMLHttpRequest): ApiError {
  noteRefusal(xhr.status);
  try {
    const body: unknown = JSON.parse(xhr.responseText);
    if (isRecord(body) && typeof body["error"] === "string") {
      return new ApiError(xhr.status, String(body["code"]), body["error"]);
    }
  } catch {
    // Not JSON from the chat server: only the status is known.
  }
  return new ApiError(xhr.status, `status_${xhr.status}`, texts.errors.status(xhr.status));
}
