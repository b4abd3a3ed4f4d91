import { BashCard } from "./BashCard";
import { ReadFileCard, WriteFileCard } from "./FileCards";
import { OtherCard } from "./OtherCard";
import type { ToolCall } from "./part";
import { PreviewCard } from "./PreviewCard";
import { PythonCard } from "./PythonCard";

export type ToolViewProps = {
  call: ToolCall;
  /** The answer of this call is arriving now. */
  live: boolean;
  /** The call is part of the last message. */
  latest: boolean;
  /** The state of its sandbox before the command can start. */
  progress: string | null;
  /** Null if this page cannot stop the answer. */
  onStop: (() => void) | null;
};

export function ToolView(props: ToolViewProps) {
  switch (props.call.name) {
    case "bash": return <BashCard {...props} />;
    case "python": return <PythonCard {...props} />;
    case "readFile": return <ReadFileCard {...props} />;
    case "writeFile": return <WriteFileCard {...props} />;
    case "sandboxUrl": return <PreviewCard {...props} />;
    default: return <OtherCard {...props} />;
  }
}
