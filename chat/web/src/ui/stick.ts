// Keeps a scrolling box at its end while content is added, until the reader scrolls up. Scrolling to the end resumes
// it.
import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";

/** A position this close to the end counts as the end. */
const NEAR_PX = 32;

/** A scroll this soon after an input of the reader is the reader's. Others follow from content that shrinks. */
const INPUT_MS = 1500;
const INPUTS = ["wheel", "touchmove", "pointerdown", "keydown"] as const;
const SCROLL_KEYS: readonly string[] = ["PageUp", "ArrowUp", "Home"];

function isAtEnd(box: HTMLElement): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight <= NEAR_PX;
}

/** For a box with the content `content`: scrolls to the end after each change, if the reader was at the end. */
export function useStickToEnd(ref: RefObject<HTMLElement | null>, live: boolean, content: unknown): void {
  const held = useRef(true);
  useEffect(() => {
    const box = ref.current;
    if (!box) return;
    const onScroll = () => {
      held.current = isAtEnd(box);
    };
    box.addEventListener("scroll", onScroll, { passive: true });
    return () => box.removeEventListener("scroll", onScroll);
  }, [ref]);
  useLayoutEffect(() => {
    const box = ref.current;
    if (box && live && held.current) box.scrollTop = box.scrollHeight;
  }, [ref, live, content]);
}

/** For the list of messages, which also grows by itself (images, frames): observes the size of the content. */
export class PageEnd {
  private held = true;
  private lastTop: number;
  private inputAt = -Infinity;
  private readonly sizes: ResizeObserver;

  constructor(
    private readonly box: HTMLElement,
    content: HTMLElement,
    private readonly onAway: (away: boolean) => void,
  ) {
    this.lastTop = box.scrollTop;
    this.sizes = new ResizeObserver(() => this.grown());
    this.sizes.observe(content);
    this.sizes.observe(box);
    box.addEventListener("scroll", this.scrolled, { passive: true });
    for (const input of INPUTS) window.addEventListener(input, this.noted, { passive: true, capture: true });
  }

  toEnd(): void {
    this.held = true;
    this.onAway(false);
    this.box.scrollTop = this.box.scrollHeight;
  }

  close(): void {
    this.sizes.disconnect();
    this.box.removeEventListener("scroll", this.scrolled);
    for (const input of INPUTS) window.removeEventListener(input, this.noted, { capture: true });
  }

  private readonly noted = (event: Event) => {
    if (event instanceof KeyboardEvent && !SCROLL_KEYS.includes(event.key)) return;
    // The scroll bar belongs to the box. A press on something in it may fold a card, which shrinks the content.
    if (event.type === "pointerdown" && event.target !== this.box) return;
    this.inputAt = performance.now();
  };

  // Only an upward scroll of the reader releases it. The box also scrolls when its content shrinks, and may not be at its end
  // any more when this is reported.
  private readonly scrolled = () => {
    const { box } = this;
    if (isAtEnd(box)) this.held = true;
    else if (box.scrollTop < this.lastTop - 2 && performance.now() - this.inputAt < INPUT_MS) this.held = false;
    this.lastTop = box.scrollTop;
    this.onAway(!isAtEnd(box) && !this.held);
  };

  private grown(): void {
    if (this.held) this.box.scrollTop = this.box.scrollHeight;
    else this.onAway(!isAtEnd(this.box));
  }
}
