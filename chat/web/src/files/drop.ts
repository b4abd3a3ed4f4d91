// Files dragged from the desktop onto an element. An event stops at the first handler, so a panel inside the chat
// takes precedence.
import { type DragEvent, useRef, useState } from "react";

export function useDrop(onFiles: (files: File[]) => void) {
  const [over, setOver] = useState(false);
  const depth = useRef(0);
  const carries = (event: DragEvent) => event.dataTransfer.types.includes("Files");
  const handlers = {
    onDragEnter: (event: DragEvent) => {
      if (!carries(event)) return;
      event.preventDefault();
      depth.current += 1;
      setOver(true);
    },
    onDragOver: (event: DragEvent) => {
      if (carries(event)) event.preventDefault();
    },
    onDragLeave: () => {
      depth.current = Math.max(0, depth.current - 1);
      if (depth.current === 0) setOver(false);
    },
    onDrop: (event: DragEvent) => {
      if (!carries(event)) return;
      event.preventDefault();
      event.stopPropagation();
      depth.current = 0;
      setOver(false);
      onFiles([...event.dataTransfer.files]);
    },
  };
  return { over, handlers };
}
