import { texts } from "../texts";
import { CopyButton } from "../ui/CopyButton";
import { CodeText } from "./CodeText";

export function CodeBlock({ code, language }: { code: string; language: string }) {
  return (
    <figure className="code-block">
      <figcaption>
        <span>{language}</span>
        <CopyButton text={code} />
      </figcaption>
      <div className="code-scroll" tabIndex={0} role="group" aria-label={language || texts.chat.code}>
        <CodeText code={code} language={language} />
      </div>
    </figure>
  );
}
