// The frame every tool shares: what it is, on what, how it stands, and a body that can be folded away.
import { ChevronDown } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import "./tools.css";

type Props = {
  kind: string;
  icon: ReactNode;
  title: ReactNode;
  /** The whole of a clipped title. */
  hint?: string;
  badges: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
  startOpen?: boolean;
  /** Forces the body open, as while something runs. */
  keepOpen?: boolean;
  tone?: "bad" | undefined;
  state?: "running" | "ok" | "error";
};

export function Card({ kind, icon, title, hint, badges, actions, children, startOpen = true, keepOpen = false, tone, state }: Props) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  // What went wrong is never folded away unasked, also when it went wrong after the card was drawn.
  const open = chosen ?? (startOpen || tone === "bad");
  const bodyId = useId();
  const shown = (open || keepOpen) && Boolean(children);
  const toggle = () => setChosen(!open);
  return (
    <section className={`card ${tone === "bad" ? "card-bad" : ""}`} data-testid={`tool:${kind}`} data-state={state} aria-label={`${kind} ${hint ?? ""}`}>
      <header className="card-head">
        <span className="card-icon" aria-hidden>{icon}</span>
        <span className="card-title clip mono" title={hint} onClick={keepOpen ? undefined : toggle}>{title}</span>
        {badges}
        <span className="card-actions">
          {actions}
          {children && !keepOpen ? (
            <IconButton label={open ? texts.tools.collapse : texts.tools.expand} aria-expanded={open} aria-controls={bodyId} onClick={toggle} className={open ? "turned" : ""}>
              <ChevronDown />
            </IconButton>
          ) : null}
        </span>
      </header>
      {shown ? <div className="card-body" id={bodyId}>{children}</div> : null}
    </section>
  );
}

export function RunningBadge({ children }: { children: ReactNode }) {
  return (
    <span className="badge badge-run" data-testid="tool:running">
      <span className="spinner" aria-hidden />
      {children}
    </span>
  );
}
