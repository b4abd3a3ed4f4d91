// The frame of a side panel: next to the chat on a wide screen, a bottom sheet on a phone.
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { texts } from "../texts";
import { Dialog } from "../ui/Dialog";
import { IconButton } from "../ui/IconButton";
import { useNarrow } from "../ui/narrow";
import { closePanel } from "./panel";

type Props = { title: string; tools?: ReactNode; children: ReactNode; testId: string; wide?: boolean };

export function PanelFrame({ title, tools, children, testId, wide = false }: Props) {
  const narrow = useNarrow();
  const panel = (
    <aside className={wide ? "panel panel-wide" : "panel"} aria-label={title} data-testid={testId}>
      <header className="panel-head">
        <h2>{title}</h2>
        {tools}
        <IconButton label={texts.close} onClick={closePanel}><X /></IconButton>
      </header>
      {children}
    </aside>
  );
  return narrow ? <Dialog title={title} kind="sheet" bare onClose={closePanel}>{panel}</Dialog> : panel;
}
