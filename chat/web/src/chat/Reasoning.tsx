import { texts } from "../texts";
import { Markdown } from "../markdown/Markdown";

/** What the model thought before it spoke: there for whoever wants it. */
export function Reasoning({ text, growing }: { text: string; growing: boolean }) {
  if (!text.trim()) return growing ? <p className="waiting">{texts.message.thinking}…</p> : null;
  return (
    <details className="reasoning">
      <summary>{growing ? `${texts.message.thinking}…` : texts.message.thought}</summary>
      <Markdown text={text} growing={growing} />
    </details>
  );
}
