// The frame that all tools share: the name, the subject, the state, and a body that can be collapsed.
import { ChevronDown } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import "./tools.css";

type Props = {
  kind: string;
  icon: ReactNode;
  title: ReactNode;
  /** The full text of a clipped title. */
  hint?: string;
  badges: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
  startOpen?: boolean;
  /** Keeps the body open, for example while a command runs. */
  keepOpen?: boolean;
  tone?: "bad" | undefined;
  state?: "running" | "ok" | "error";
};

export function Card({ kind, icon, title, hint, badges, actions, children, startOpen = true, keepOpen = false, tone, state }: Props) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  // A failure is never collapsed automatically, even if it happens after the card was rendered.
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
