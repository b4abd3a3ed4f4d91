// The meaning and severity of an exit code.
import { texts } from "../texts";
import { duration } from "../ui/format";

export type Tone = "ok" | "warn" | "bad";

/** Ended by a signal or a time limit: a warning. A program's own failure: an error. */
const FROM_OUTSIDE: readonly number[] = [124, 130, 137, 143];

export function exitTone(code: number): Tone {
  if (code === 0) return "ok";
  return FROM_OUTSIDE.includes(code) ? "warn" : "bad";
}

/** A sentence for the codes with a fixed meaning; null for all others. */
export function exitMeaning(code: number, timeoutMs: number): string | null {
  return texts.tools.exits[code]?.(duration(timeoutMs)) ?? null;
}
