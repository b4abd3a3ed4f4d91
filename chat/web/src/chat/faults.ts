// What went wrong with an answer.
import { ApiError, sentenceOf } from "../api/error";
import { texts } from "../texts";
import { bashOutput, LOST, type Part, toolCall } from "../tools/part";
import type { Failure } from "./live";

/** Error codes of a send that are obsolete once the server and its tools respond again. */
export const PASSING_CODES: readonly (string | null)[] = ["unreachable", "tools_disabled", "unavailable"];

/** Codes for which the page has a better sentence, which says what happened to the user's text. */
const OWN_WORDS: Readonly<Record<string, string>> = { busy: texts.errors.busy, unreachable: texts.errors.notSent };

/** What is shown of an error. */
export function failureOf(error: Error, during: Failure["during"]): Failure {
  const code = error instanceof ApiError ? error.code : null;
  return { sentence: OWN_WORDS[code ?? ""] ?? sentenceOf(error), during, code };
}

export const CUT = { sentence: texts.errors.cut, during: "answer" as const, code: null };

export function isUnreachable(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.unreachable;
}

/** The tool itself failed, or its connection was lost during a command. */
export function isBrokenCall(part: Part): boolean {
  const call = toolCall(part);
  return call !== null && (call.error !== null || bashOutput(call.output)?.exitCode === LOST);
}

/** Browsers report a lost connection in this way, each in its own words, unlike an error that the server sent. */
export function isBroken(error: Error): boolean {
  return error instanceof TypeError;
}
