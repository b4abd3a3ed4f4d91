import { ChevronRight } from "lucide-react";
import { texts } from "../texts";
import { plainName } from "../ui/names";

/** The path of a folder; each part is a link to that folder. */
export function Crumbs({ path, onGo }: { path: string; onGo: (path: string) => void }) {
  const steps = path.split("/").filter(Boolean);
  return (
    <nav className="crumbs" aria-label={texts.files.path}>
      <button type="button" onClick={() => onGo("")} aria-current={steps.length === 0 ? "location" : undefined}>{texts.files.root}</button>
      {steps.map((step, index) => {
        const to = steps.slice(0, index + 1).join("/");
        return (
          <span key={to}>
            <ChevronRight aria-hidden />
            <button type="button" onClick={() => onGo(to)} aria-current={to === path ? "location" : undefined}><bdi>{plainName(step)}</bdi></button>
          </span>
        );
      })}
    </nav>
  );
}
