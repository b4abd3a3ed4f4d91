import type { SandboxInfo } from "../api/types";
import { texts } from "../texts";
import { bytes } from "../ui/format";

/** The sandbox's usage and limits. A bar changes its colour near the limit. */
export function Usage({ info }: { info: SandboxInfo }) {
  const { usage, limits } = info;
  if (!usage) return null;
  return (
    <div className="usage">
      <Bar name={texts.session.memory} used={usage.memoryBytes} limit={limits?.memoryBytes ?? null} show={bytes} />
      <Bar name={texts.session.disk} used={usage.diskBytes} limit={limits?.diskBytes ?? null} show={bytes} />
      <Bar name={texts.session.processes} used={usage.pids} limit={limits?.pids ?? null} show={String} />
    </div>
  );
}

type BarProps = { name: string; used: number | null; limit: number | null; show: (n: number) => string };

const WARM = 0.8;

function Bar({ name, used, limit, show }: BarProps) {
  if (used === null) return null;
  const share = limit ? Math.min(1, used / limit) : 0;
  const words = limit ? texts.session.of(show(used), show(limit)) : texts.session.noLimit(show(used));
  return (
    <div className="bar">
      <span>{name}</span>
      <span className="quiet">{words}</span>
      {limit ? <meter min={0} max={1} value={share} aria-label={name} aria-valuetext={words} className={share > WARM ? "meter-warm" : ""} /> : null}
    </div>
  );
}
