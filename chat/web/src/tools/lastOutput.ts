// What a command had written when its tool failed. The stream replaces a call's output by its error, and what was on the
// screen a moment ago would be gone. Kept for calls that this page saw running; a server keeps none of it.
import { useEffect } from "react";
import { bashOutput, type BashOutput, type ToolCall } from "./part";

const MAX_KEPT = 50;
const kept = new Map<string, BashOutput>();

/** The output, or where there is none any more the last one there was. */
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
