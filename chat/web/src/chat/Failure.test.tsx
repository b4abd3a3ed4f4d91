import { fireEvent, render, screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Failure } from "./Failure";
import type { Live } from "./live";

const live = (change: Partial<Live>): Live => ({ running: false, settling: false, sandbox: null, failure: null, ...change });
const failure = { sentence: "The model's answer broke off.", during: "answer" as const, code: null };

it("shows the failure, and retries", () => {
  const again = vi.fn();
  render(<Failure live={live({ failure })} unanswered={false} failed={false} onAgain={again} />);
  expect(screen.getByTestId("chat:failure").textContent).toContain("broke off");
  fireEvent.click(screen.getByTestId("chat:again"));
  expect(again).toHaveBeenCalledOnce();
});

it("does not repeat a failure that the answer shows, but still retries", () => {
  render(<Failure live={live({ failure })} unanswered={false} failed onAgain={vi.fn()} />);
  expect(screen.queryByTestId("chat:failure")).toBeNull();
  expect(screen.getByTestId("chat:unanswered").textContent).toContain("not complete");
  expect(screen.getByTestId("chat:again")).toBeTruthy();
});

it("shows nothing while an answer is in progress or without a failure", () => {
  const { container, rerender } = render(<Failure live={live({ running: true, failure })} unanswered failed={false} onAgain={vi.fn()} />);
  expect(container.textContent).toBe("");
  rerender(<Failure live={live({})} unanswered={false} failed={false} onAgain={vi.fn()} />);
  expect(container.textContent).toBe("");
});
