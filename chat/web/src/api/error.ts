// The error of a failed request. `message` is the server's sentence, if it sent one.
import { texts } from "../texts";

export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
  }

  /** No response: the server or the network is down. */
  get unreachable(): boolean {
    return this.code === "unreachable";
  }
}

export async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const fields = isRecord(body) ? body : {};
  const sentence = typeof fields["error"] === "string" ? fields["error"] : texts.errors.status(response.status);
  const code = typeof fields["code"] === "string" ? fields["code"] : `status_${response.status}`;
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new ApiError(response.status, code, sentence, Number.isFinite(retryAfter) ? retryAfter : null);
}

/**
 * Whether the requested object does not exist. A chat whose first message is still being sent does not exist yet
 * either.
 */
export function isNotFound(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status === 404;
}

export function unreachable(): ApiError {
  return new ApiError(0, "unreachable", texts.errors.unreachable);
}

/** The sentence to show for any thrown value. */
export function sentenceOf(thrown: unknown): string {
  return thrown instanceof Error && thrown.message ? asSentence(thrown.message) : texts.errors.unknown;
}

/**
 * The server's messages start in lower case, because its log puts text before them. A name in code is not
 * capitalised.
 */
export function asSentence(words: string): string {
  const first = words.split(/\s/, 1)[0] ?? "";
  const begun = /^[a-z][a-z']*$/.test(first) && first !== "sandboxd" ? words.charAt(0).toUpperCase() + words.slice(1) : words;
  return /[\p{L}\p{N})`"']$/u.test(begun) ? `${begun}.` : begun;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
