import { BashCard } from "./BashCard";
import { ReadFileCard, WriteFileCard } from "./FileCards";
import { OtherCard } from "./OtherCard";
import type { ToolCall } from "./part";
import { PreviewCard } from "./PreviewCard";

export type ToolViewProps = {
  call: ToolCall;
  /** The answer this call belongs to is arriving now. */
  live: boolean;
  /** It is part of the last message. */
  latest: boolean;
  /** What its sandbox is doing before the command can start. */
  progress: string | null;
  /** Null when the answer is not this page's to stop. */
  onStop: (() => void) | null;
};

export function ToolView(props: ToolViewProps) {
  switch (props.call.name) {
    case "bash": return <BashCard {...props} />;
    case "readFile": return <ReadFileCard {...props} />;
    case "writeFile": return <WriteFileCard {...props} />;
    case "sandboxUrl": return <PreviewCard {...props} />;
    default: return <OtherCard {...props} />;
  }
}
