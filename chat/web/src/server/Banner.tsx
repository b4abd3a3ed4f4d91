import { CircleAlert } from "lucide-react";
import { texts } from "../texts";
import { useNow } from "../ui/now";
import { refreshServer, toolsAway, useServer } from "./store";

/** Reports that the server or its tools are down, and disappears when they respond again. */
export function Banner() {
  const { info, error, nextTryAt } = useServer();
  const sentence = error ?? (info && toolsAway(info) ? texts.errors.toolsAway : null);
  const now = useNow(sentence !== null, 1000);
  if (sentence === null) return null;
  const seconds = nextTryAt === null ? 0 : Math.max(1, Math.ceil((nextTryAt - now) / 1000));
  return (
    <div className="banner" role="alert" data-testid="banner:error">
      <CircleAlert aria-hidden />
      <p>
        {sentence} <span className="quiet" aria-hidden>{seconds > 0 ? texts.errors.retryIn(seconds) : ""}</span>
      </p>
      <button type="button" onClick={() => void refreshServer()}>{texts.retry}</button>
    </div>
  );
}
