import { texts } from "../texts";
import { Markdown } from "../markdown/Markdown";

/** The model's reasoning before its answer, shown on demand. */
export function Reasoning({ text, growing }: { text: string; growing: boolean }) {
  if (!text.trim()) return growing ? <p className="waiting">{texts.message.thinking}…</p> : null;
  return (
    <details className="reasoning">
      <summary>{growing ? `${texts.message.thinking}…` : texts.message.thought}</summary>
      <Markdown text={text} growing={growing} />
    </details>
  );
}
