// The last output of a command or of code whose tool failed. The stream replaces a call's output with its error, and the
// displayed output would disappear. It is kept for calls that ran while this page was open; the server does not keep
// it.
import { useEffect } from "react";
import type { ToolCall } from "./part";

const MAX_KEPT = 50;
const kept = new Map<string, unknown>();

/** The output, or the last one if the call no longer has any. */
export function useLastOutput({ id, output }: ToolCall): unknown {
  useEffect(() => {
    if (output === undefined) return;
    kept.delete(id);
    kept.set(id, output);
    const oldest = kept.keys().next().value;
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  }, [id, output]);
  return output ?? kept.get(id);
}
