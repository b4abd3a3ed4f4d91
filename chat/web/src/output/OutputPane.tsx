// Shows terminal output. Blocks of lines are rendered separately, so that appending re-renders only the last one.
import { memo, useMemo, useRef } from "react";
import { useStickToEnd } from "../ui/stick";
import { Pieces } from "./Pieces";
import { type Block, readScreen } from "./screen";
import "./output.css";

type Props = {
  output: string;
  label: string;
  /** While it runs, the end stays in view until the reader scrolls away. */
  live: boolean;
  tone?: "stdout" | "stderr";
  tall?: boolean;
  testId?: string;
};

export function OutputPane({ output, label, live, tone = "stdout", tall = false, testId }: Props) {
  const blocks = useMemo(() => readScreen(output), [output]);
  const pane = useRef<HTMLDivElement>(null);
  useStickToEnd(pane, live, output);
  return (
    <div
      ref={pane}
      className={`output output-${tone} ${tall ? "output-tall" : ""}`}
      role="group"
      aria-label={label}
      tabIndex={0}
      data-testid={testId}
    >
      <pre>
        {blocks.map((block, index) => (
          <BlockView key={index} block={block} />
        ))}
      </pre>
    </div>
  );
}

const BlockView = memo(
  function BlockView({ block }: { block: Block }) {
    return (
      <span className="output-block">
        <Pieces block={block} />
      </span>
    );
  },
  (before, after) => sameBlock(before.block, after.block),
);

function sameBlock(a: Block, b: Block): boolean {
  return a.length === b.length && a.every((run, at) => run.pen === b[at]?.pen && run.text === b[at].text);
}
