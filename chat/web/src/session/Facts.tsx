import type { SandboxInfo } from "../api/types";
import { texts } from "../texts";
import { CopyButton } from "../ui/CopyButton";
import { ago } from "../ui/format";

export function Facts({ info }: { info: SandboxInfo }) {
  const { seed, limits } = info;
  const facts: [string, string | null][] = [
    [texts.session.cpus, limits?.cpus ? String(limits.cpus) : null],
    [texts.session.active, info.lastActiveAt ? ago(info.lastActiveAt) : null],
    [info.state === "parked" ? texts.session.deletedAt : texts.session.parksAt, info.expiresAt ? ago(info.expiresAt) : null],
    [texts.session.seed, seed.state === "none" ? null : texts.session.seeds[seed.state]],
    [texts.session.image, info.image],
    [texts.session.provider, info.provider],
  ];
  return (
    <>
      <dl className="facts">
        {facts.map(([name, value]) => (value === null ? null : <Fact key={name} name={name} value={value} />))}
        {info.sandboxId ? (
          <div>
            <dt>{texts.session.id}</dt>
            <dd className="mono">
              {info.sandboxId} <CopyButton text={info.sandboxId} />
            </dd>
          </div>
        ) : null}
      </dl>
      {seed.reason ? <p className={`note ${seed.state === "failed" ? "note-bad" : ""}`}>{seed.reason}</p> : null}
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
