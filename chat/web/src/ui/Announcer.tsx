import { X } from "lucide-react";
import { texts } from "../texts";
import { dismissComplaint, useAnnouncement } from "./announce";
import { IconButton } from "./IconButton";

/** Two fields that alternate, so that a repeated sentence is also read twice. */
export function Announcer() {
  const { text, turn, complaint } = useAnnouncement();
  return (
    <>
      <div className="hidden-visually">
        <div role="status" aria-live="polite">{turn % 2 === 0 ? text : ""}</div>
        <div role="status" aria-live="polite">{turn % 2 === 1 ? text : ""}</div>
      </div>
      <div role="alert">
        {complaint === null ? null : (
          <div className="complaint" data-testid="complaint">
            <p>{complaint}</p>
            <IconButton label={texts.close} onClick={dismissComplaint}><X /></IconButton>
          </div>
        )}
      </div>
    </>
  );
}
