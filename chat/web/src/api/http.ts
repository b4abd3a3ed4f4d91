// One door to the server: credentials go on, errors come back as ApiError, and a 401 is told to whoever listens.
import { credentialHeaders } from "./credentials";
import { errorOf, unreachable } from "./error";

export type RequestOptions = {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Sent as JSON. */
  json?: unknown;
  /** The chat whose ticket must go along, if it is a temporary one. */
  chatId?: string;
  signal?: AbortSignal;
};

type Unauthorized = () => void;
let unauthorized: Unauthorized = () => undefined;

/** The token dialog listens here; there is one listener for the page. */
export function onUnauthorized(listener: Unauthorized): void {
  unauthorized = listener;
}

export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = credentialHeaders(options.chatId);
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

/** A missing or wrong token is told to whoever listens, however the request was sent. */
export function noteRefusal(status: number): void {
  if (status === 401) unauthorized();
}

/** Like fetch, but a refusal is thrown. An abort stays the DOMException it is. */
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
