import { openTokenDialog } from "../access/store";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import type { Live } from "./live";

type Props = {
  live: Live;
  /** The last message is the user's. */
  unanswered: boolean;
  /** The last message is an answer that failed. It shows the reason itself. */
  failed: boolean;
  onAgain: () => void;
};

/** The last failure of this chat, above the composer, with the possible actions. */
export function Failure({ live, unanswered, failed, onAgain }: Props) {
  const { failure } = live;
  if (live.running || live.settling) return null;
  if (!failure || (failed && failure.during === "answer")) {
    if (!unanswered && !failed) return null;
    return <Unanswered sentence={unanswered ? texts.errors.unanswered : texts.errors.incomplete} onAgain={onAgain} />;
  }
  return (
    <div className="note note-bad failure column" role="alert" data-testid="chat:failure">
      <p>{failure.sentence}</p>
      {failure.code === "unauthorized" ? <Button onClick={openTokenDialog}>{texts.locked.button}</Button> : null}
      {failure.during === "answer" ? <Again onAgain={onAgain} /> : null}
    </div>
  );
}

/** The failure happened before this page was opened; if its reason is known, the answer states it. */
function Unanswered({ sentence, onAgain }: Pick<Props, "onAgain"> & { sentence: string }) {
  return (
    <div className="note failure column" role="status" data-testid="chat:unanswered">
      <p>{sentence}</p>
      <Again onAgain={onAgain} />
    </div>
  );
}

function Again({ onAgain }: Pick<Props, "onAgain">) {
  return <Button onClick={() => onAgain()} testId="chat:again">{texts.retry}</Button>;
}
