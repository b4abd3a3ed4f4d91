import { useEffect, useState } from "react";
import { isNotFound, sentenceOf } from "../api/error";
import { allowHost, getNetwork } from "../api/sandbox";
import type { NetworkInfo } from "../api/types";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { ago } from "../ui/format";

/** Connections of the sandbox that were denied. If there is a list of allowed hosts, a host can be added here. */
export function Network({ chatId, turn }: { chatId: string; turn: number }) {
  const [info, setInfo] = useState<NetworkInfo | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let here = true;
    getNetwork(chatId).then(
      (answer) => here && setInfo(answer),
      (thrown: unknown) => {
        // A provider without this endpoint responds with 404, which is not an error.
        if (here && !isNotFound(thrown)) setError(sentenceOf(thrown));
      },
    );
    return () => {
      here = false;
    };
  }, [chatId, turn]);

  const allow = async (entry: string) => {
    setError(null);
    try {
      setInfo(await allowHost(chatId, entry));
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
          <li key={`${denial.host}:${denial.port}:${denial.reason}`} data-testid="network:denial">
            <div>
              <span className="mono">{denial.host}:{denial.port}</span>
              <span className="quiet">{texts.session.denied[denial.reason]} · {texts.session.times(denial.count)} · {ago(denial.lastAt)}</span>
            </div>
            <AllowButton entry={denial.entry} onAllow={allow} />
          </li>
        ))}
      </ul>
      {info && info.allow.length > 0 ? (
        <p className="quiet" data-testid="network:allowed">{texts.session.allowed}: <span className="mono">{info.allow.join(", ")}</span></p>
      ) : null}
    </section>
  );
}

/** Waits for the response, so that a second click does not add the host twice. */
function AllowButton({ entry, onAllow }: { entry: string | null; onAllow: (entry: string) => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  if (entry === null) return null;
  const click = async () => {
    setBusy(true);
    await onAllow(entry);
    setBusy(false);
  };
  return (
    <Button onClick={() => void click()} disabled={busy} aria-label={texts.session.allowHost(entry)} testId="network:allow">{texts.session.allow}</Button>
  );
}
