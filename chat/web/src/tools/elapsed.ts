// The duration of a call as observed by this page. It is stored per call, so that a re-created card does not start
// from zero.
import { useEffect } from "react";
import { create } from "zustand";
import { useNow } from "../ui/now";

type Span = { from: number; to: number | null };

/** Older calls are removed; their cards then show no time. */
const MAX_KEPT = 500;

const useSpans = create<{ spans: Record<string, Span> }>(() => ({ spans: {} }));

/** Milliseconds; null for a call that did not run while this page was open. */
export function useElapsed(callId: string, running: boolean): number | null {
  const span = useSpans(({ spans }) => spans[callId]);
  const now = useNow(running, 200);
  useEffect(() => (running ? begin(callId) : end(callId)), [callId, running]);
  if (!span) return running ? 0 : null;
  return Math.max(0, (span.to ?? now) - span.from);
}

function begin(callId: string): void {
  useSpans.setState(({ spans }) => {
    if (spans[callId]) return { spans };
    const kept = Object.entries(spans).slice(-MAX_KEPT);
    return { spans: { ...Object.fromEntries(kept), [callId]: { from: Date.now(), to: null } } };
  });
}

function end(callId: string): void {
  useSpans.setState(({ spans }) => {
    const span = spans[callId];
    return span?.to === null ? { spans: { ...spans, [callId]: { ...span, to: Date.now() } } } : { spans };
  });
}
