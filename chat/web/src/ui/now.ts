import { useEffect, useState } from "react";

/** The time, kept up to date every `everyMs` while `on`. */
export function useNow(on: boolean, everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!on) return;
    const tick = () => setNow(Date.now());
    // What was known when it was last on may be hours old.
    const first = setTimeout(tick);
    const timer = setInterval(tick, everyMs);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, [on, everyMs]);
  return now;
}
