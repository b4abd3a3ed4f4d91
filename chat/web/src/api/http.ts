// All requests to the server: they carry the credentials, throw ApiError on failure, and report a 401 to the
// listener.
import { pageHeaders } from "./credentials";
import { errorOf, unreachable } from "./error";

export type RequestOptions = {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Sent as JSON. */
  json?: unknown;
  /** The chat whose ticket is sent, if it is a temporary one. */
  chatId?: string;
  signal?: AbortSignal;
};

type Unauthorized = () => void;
let unauthorized: Unauthorized = () => undefined;

/** The token dialog listens here; the page has one listener. */
export function onUnauthorized(listener: Unauthorized): void {
  unauthorized = listener;
}

export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = pageHeaders(options.chatId);
  const init: RequestInit = { method: options.method ?? "GET", headers, cache: "no-store" };
  if (options.json !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(options.json);
  }
  if (options.signal) init.signal = options.signal;
  return send(path, init);
}

export async function requestJson<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await request(path, options);
  return (await response.json()) as T;
}

/** Reports a missing or wrong token to the listener, for any kind of request. */
export function noteRefusal(status: number): void {
  if (status === 401) unauthorized();
}

/** Like fetch, but throws an error response. An abort remains a DOMException. */
export async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === "AbortError") throw thrown;
    throw unreachable();
  }
  if (response.ok) return response;
  noteRefusal(response.status);
  throw await errorOf(response);
}
