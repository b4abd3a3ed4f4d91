import { ArrowUpRight, SquareTerminal } from "lucide-react";
import { toolsAway, useServer } from "../server/store";
import { texts } from "../texts";
import { Mark } from "../ui/Mark";
import { setDraft } from "./drafts";

type Props = { chatId: string; temporary: boolean; onSend: (text: string) => void };

/** A chat before its first message: an explanation, examples, and how to connect a model if there is none. */
export function EmptyChat({ chatId, temporary, onSend }: Props) {
  const info = useServer((server) => server.info);
  const noModel = info?.models.length === 0;
  const examples = noModel ? texts.empty.examples : [...texts.empty.modelExamples, ...texts.empty.examples.slice(0, 2)];
  return (
    <div className="empty">
      <div className="column empty-column">
        <Mark />
        <h2>{temporary ? texts.empty.temporaryTitle : texts.empty.title}</h2>
        <p className="empty-text">{temporary ? texts.empty.temporaryText : texts.empty.text}</p>
        <ul className="examples">
          {examples.map((example) => {
            const direct = example.text.startsWith("/bash ");
            return (
              <li key={example.text}>
                <button type="button" onClick={() => (direct ? onSend(example.text) : setDraft(chatId, example.text))}>
                  {direct ? <SquareTerminal aria-hidden /> : <ArrowUpRight aria-hidden />}
                  <span>
                    {example.label}
                    {direct ? <code className="clip">{example.text}</code> : null}
                  </span>
                </button>
              </li>
            );
          })}
        </ul>
        {info && !info.tools.enabled && !toolsAway(info) ? <p className="note note-warn empty-note">{info.tools.reason ?? texts.noTools}</p> : null}
        {noModel ? <NoModel /> : null}
      </div>
    </div>
  );
}

function NoModel() {
  return (
    <section className="no-model" aria-label={texts.noModel.title} data-testid="chat:no-model">
      <h3>{texts.noModel.title}</h3>
      <p>{texts.noModel.works} <code className="inline-code">/bash</code>. {texts.noModel.how} <code className="inline-code">CHAT_OPENAI_MODELS</code> {texts.noModel.or} <code className="inline-code">CHAT_ANTHROPIC_MODELS</code>.</p>
      <p className="quiet">{texts.noModel.docs}</p>
    </section>
  );
}
