// A modal window based on the browser's <dialog>: it keeps the focus inside, makes the rest inert, closes on Esc and
// restores the focus. Rendered only while open.
import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { texts } from "../texts";
import { IconButton } from "./IconButton";

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** `sheet` opens from the bottom on a phone, `drawer` from the side. */
  kind?: "window" | "wide" | "sheet" | "drawer" | "palette";
  /** The title is read by screen readers, but not shown. */
  bare?: boolean;
  testId?: string;
};

export function Dialog({ title, onClose, children, kind = "window", bare = false, testId }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    // showModal uses the autofocus attribute, which React does not render.
    dialog?.querySelector<HTMLElement>("[data-focus]")?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dialog dialog-${kind}`}
      aria-labelledby={titleId}
      data-testid={testId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClose={() => {
        // The browser may close the dialog without asking (Esc twice); the state must follow.
        if (!ref.current?.open) onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <div className="dialog-box">
        <header className={bare ? "hidden-visually" : "dialog-head"}>
          <h2 id={titleId}>{title}</h2>
          {bare ? null : <IconButton label={texts.close} onClick={onClose}><X /></IconButton>}
        </header>
        {children}
      </div>
    </dialog>
  );
}
