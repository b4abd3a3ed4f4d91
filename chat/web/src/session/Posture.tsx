import { ShieldAlert, ShieldCheck } from "lucide-react";
import type { NetworkMode, Posture as PostureInfo } from "../api/types";
import { texts } from "../texts";

/**
 * The isolation that was really applied, in plain words: a check mark if a measure is active, a warning if it is not.
 */
export function Posture({ posture, network }: { posture: PostureInfo; network: NetworkMode | null }) {
  return (
    <section className="posture">
      <h3>{texts.session.posture}</h3>
      <ul>
        {linesOf(posture, network).map(({ good, text }) => (
          <li key={text} className={good ? "" : "tone-warn"}>
            {good ? <ShieldCheck aria-hidden /> : <ShieldAlert aria-hidden />}
            {text}
          </li>
        ))}
      </ul>
    </section>
  );
}

export type PostureLine = { good: boolean; text: string };

/**
 * `network` is the policy. The container itself has no network interface, even if hosts are reachable through
 * sandboxd.
 */
export function linesOf(posture: PostureInfo, network: NetworkMode | null): PostureLine[] {
  const t = texts.session;
  const none = posture.capabilities.length === 0;
  const filtered = posture.seccomp !== "" && posture.seccomp !== "unconfined" && posture.seccomp !== "none";
  const root = posture.user === "root" || posture.user === "0" || posture.user.startsWith("0:");
  return [
    { good: posture.readonlyRootfs, text: posture.readonlyRootfs ? t.readonly : t.writable },
    { good: none, text: none ? t.noCapabilities : t.capabilities(posture.capabilities.join(", ")) },
    { good: posture.noNewPrivileges, text: posture.noNewPrivileges ? t.noNew : t.mayGain },
    { good: filtered, text: filtered ? t.seccomp(posture.seccomp) : t.noSeccomp },
    { good: !root, text: t.user(posture.user) },
    network === null
      ? { good: true, text: t.networkInterface(posture.network) }
      : { good: network !== "open", text: t.networks[network] },
    { good: true, text: t.runtime(posture.runtime) },
    ...posture.unenforced.map((what) => ({ good: false, text: t.unenforced(what) })),
  ];
}
