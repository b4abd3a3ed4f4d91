import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { texts } from "../texts";
import { announce } from "./announce";
import { copyText } from "./clipboard";
import { IconButton } from "./IconButton";

const FEEDBACK_MS = 1500;

type Props = { text: string | (() => string); label?: string; className?: string };

/** `text` may be a function, for text that is expensive to compute. */
export function CopyButton({ text, label = texts.copy, className = "" }: Props) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), FEEDBACK_MS);
    return () => clearTimeout(timer);
  }, [copied]);

  const copy = async () => {
    const done = await copyText(typeof text === "string" ? text : text());
    setCopied(done);
    if (done) announce(texts.copied);
  };
  return (
    <IconButton label={copied ? texts.copied : label} className={className} onClick={() => void copy()} tone={copied ? "ok" : undefined}>
      {copied ? <Check /> : <Copy />}
    </IconButton>
  );
}
