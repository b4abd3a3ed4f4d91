// A list from the server: loaded when it is shown, and again after each act on it.
import { useCallback, useEffect, useState } from "react";
import { sentenceOf } from "../api/error";

export type Loaded<T> = { value: T | null; error: string | null; act: (run: () => Promise<unknown>) => Promise<boolean> };

/** `load` must be the same function on each render. */
export function useLoaded<T>(load: () => Promise<T>): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const act = useCallback(
    async (run: () => Promise<unknown>) => {
      try {
        await run();
        setValue(await load());
        setError(null);
        return true;
      } catch (thrown) {
        setError(sentenceOf(thrown));
        return false;
      }
    },
    [load],
  );
  useEffect(() => {
    let shown = true;
    load().then(
      (found) => { if (shown) setValue(found); },
      (thrown: unknown) => { if (shown) setError(sentenceOf(thrown)); },
    );
    return () => { shown = false; };
  }, [load]);
  return { value, error, act };
}
