import { useEffect, useState } from "react";
import { ApiError, sentenceOf } from "../api/error";
import { allowHost, getNetwork } from "../api/sandbox";
import type { Denial, NetworkInfo } from "../api/types";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { ago } from "../ui/format";

/** Connections the sandbox was refused. Where a list of hosts holds, one can be added here. */
export function Network({ chatId, turn }: { chatId: string; turn: number }) {
  const [info, setInfo] = useState<NetworkInfo | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let here = true;
    getNetwork(chatId).then(
      (answer) => here && setInfo(answer),
      (thrown: unknown) => {
        // A provider without this page of the book answers 404, which is no failure.
        if (here && !(thrown instanceof ApiError && thrown.status === 404)) setError(sentenceOf(thrown));
      },
    );
    return () => {
      here = false;
    };
  }, [chatId, turn]);

  const allow = async (denial: Denial) => {
    setError(null);
    try {
      setInfo(await allowHost(chatId, targetOf(denial)));
    } catch (thrown) {
      setError(sentenceOf(thrown));
    }
  };
  if (!info && !error) return null;
  return (
    <section className="network">
      <h3>{texts.session.networkTitle}</h3>
      {error ? <p className="note note-bad" role="alert">{error}</p> : null}
      {info?.denials.length === 0 ? <p className="quiet">{texts.session.noDenials}</p> : null}
      <ul>
        {info?.denials.map((denial) => (
          <li key={`${denial.host}:${denial.port}`}>
            <div>
              <span className="mono">{denial.host}:{denial.port}</span>
              <span className="quiet">{denial.reason} · {texts.session.times(denial.count)} · {ago(denial.lastAt)}</span>
            </div>
            {info.mode === "allowlist" ? (
              <Button onClick={() => void allow(denial)} aria-label={texts.session.allowHost(targetOf(denial))} testId="network:allow">{texts.session.allow}</Button>
            ) : null}
          </li>
        ))}
      </ul>
      {info && info.allow.length > 0 ? (
        <p className="quiet">{texts.session.allowed}: <span className="mono">{info.allow.join(", ")}</span></p>
      ) : null}
    </section>
  );
}

/** The two usual ports need not be said. */
function targetOf({ host, port }: Denial): string {
  return port === 80 || port === 443 ? host : `${host}:${port}`;
}
