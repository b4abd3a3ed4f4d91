// What an exit code says, and how loudly.
import { texts } from "../texts";
import { duration } from "../ui/format";

export type Tone = "ok" | "warn" | "bad";

/** Ended from outside or by time is a warning; a program's own failure is bad. */
const FROM_OUTSIDE: readonly number[] = [124, 130, 137, 143];

export function exitTone(code: number): Tone {
  if (code === 0) return "ok";
  return FROM_OUTSIDE.includes(code) ? "warn" : "bad";
}

/** A sentence for the codes that have a meaning of their own; null for the rest. */
export function exitMeaning(code: number, timeoutMs: number): string | null {
  return texts.tools.exits[code]?.(duration(timeoutMs)) ?? null;
}
