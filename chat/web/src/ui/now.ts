import { useEffect, useState } from "react";

/** The current time, updated every `everyMs` while `on`. */
export function useNow(on: boolean, everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!on) return;
    const tick = () => setNow(Date.now());
    // The last value may be hours old.
    const first = setTimeout(tick);
    const timer = setInterval(tick, everyMs);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, [on, everyMs]);
  return now;
}
