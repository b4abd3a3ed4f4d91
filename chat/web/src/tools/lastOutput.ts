// The last output of a command whose tool failed. The stream replaces a call's output with its error, and the
// displayed output would disappear. It is kept for calls that ran while this page was open; the server does not keep
// it.
import { useEffect } from "react";
import { bashOutput, type BashOutput, type ToolCall } from "./part";

const MAX_KEPT = 50;
const kept = new Map<string, BashOutput>();

/** The output, or the last one if the call no longer has any. */
export function useLastOutput({ id, output }: ToolCall): BashOutput | null {
  useEffect(() => {
    const now = bashOutput(output);
    if (!now) return;
    kept.delete(id);
    kept.set(id, now);
    const oldest = kept.keys().next().value;
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  }, [id, output]);
  return bashOutput(output) ?? kept.get(id) ?? null;
}
