import { type RefObject, useLayoutEffect } from "react";

/** Makes a text field as tall as its text; the style sheet sets the maximum. */
export function useAutoHeight(ref: RefObject<HTMLTextAreaElement | null>, text: string): void {
  useLayoutEffect(() => {
    const field = ref.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }, [ref, text]);
}
