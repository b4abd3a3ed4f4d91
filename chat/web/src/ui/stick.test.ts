import { beforeEach, expect, it, vi } from "vitest";
import { PageEnd } from "./stick";

let resized: () => void;
let box: HTMLElement;
let content: HTMLElement;

beforeEach(() => {
  vi.stubGlobal("ResizeObserver", class {
    constructor(callback: () => void) {
      resized = callback;
    }
    observe = () => undefined;
    disconnect = () => undefined;
  });
  box = document.body.appendChild(document.createElement("div"));
  content = box.appendChild(document.createElement("div"));
  for (const [name, value] of [["scrollHeight", 1000], ["clientHeight", 100], ["scrollTop", 900]] as const) {
    Object.defineProperty(box, name, { value, writable: true });
  }
});

/** The box has moved up, and its content grows. Returns where it is then. */
function afterMove(): number {
  box.scrollTop = 500;
  box.dispatchEvent(new Event("scroll"));
  resized();
  return box.scrollTop;
}

it("stays at the end when content that shrinks has moved the box, also after a press on a card or a letter", () => {
  const end = new PageEnd(box, content, () => undefined);
  expect(afterMove()).toBe(1000);
  content.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  window.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  expect(afterMove()).toBe(1000);
  end.close();
});

it.each([
  () => content.dispatchEvent(new Event("wheel", { bubbles: true })),
  () => box.dispatchEvent(new Event("pointerdown", { bubbles: true })),
  () => window.dispatchEvent(new KeyboardEvent("keydown", { key: "PageUp" })),
])("is released by the reader", (input) => {
  const end = new PageEnd(box, content, () => undefined);
  input();
  expect(afterMove()).toBe(500);
  end.close();
});
