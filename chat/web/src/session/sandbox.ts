// A chat's sandbox as reported by the server. It is requested when the panel opens, after each tool call, and every
// few seconds while the page is in view.
import { useCallback, useEffect, useState } from "react";
import { sentenceOf } from "../api/error";
import { getSandbox } from "../api/sandbox";
import type { SandboxInfo } from "../api/types";
import { suspect } from "../server/store";

const EVERY_MS = 5000;

export function useSandbox(chatId: string, begun: boolean, turn: number) {
  const [info, setInfo] = useState<SandboxInfo | null>(null);
  const [error, setError] = useState<string | null>(null);

  const load = useCallback(
    () =>
      getSandbox(chatId).then(
        (answer) => {
          setInfo(answer);
          setError(null);
        },
        (thrown: unknown) => {
          suspect(thrown);
          setError(sentenceOf(thrown));
        },
      ),
    [chatId],
  );

  useEffect(() => {
    if (begun) void load();
  }, [load, begun, turn]);
  useEffect(() => {
    if (!begun) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void load();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [load, begun]);

  const reload = useCallback(() => void load(), [load]);
  return { info, error, reload, setInfo };
}
