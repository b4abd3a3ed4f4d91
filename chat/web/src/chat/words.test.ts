import { expect, it } from "vitest";
import { directCommand, isUnanswered, looksDirect, toggleDirect } from "./words";

it("finds the command that runs without a model", () => {
  expect(directCommand("/bash ls -la")).toBe("ls -la");
  expect(directCommand("bash: pwd")).toBe("pwd");
  expect(directCommand("/bash\nls\npwd")).toBe("ls\npwd");
});

it("ignores other texts", () => {
  for (const text of ["what is /bash ls", "/bashful", "/bash ", "bash is a shell"]) expect(directCommand(text)).toBeNull();
  expect(looksDirect("/bash")).toBe(true);
  expect(looksDirect("/bashful")).toBe(false);
});

it("adds and removes the prefix", () => {
  expect(toggleDirect("ls")).toBe("/bash ls");
  expect(toggleDirect("/bash ls")).toBe("ls");
  expect(toggleDirect("")).toBe("/bash ");
  expect(toggleDirect("/bash")).toBe("");
});

it("recognises an answer without content", () => {
  expect(isUnanswered({ id: "1", role: "user", parts: [] })).toBe(true);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "step-start" }] })).toBe(true);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "step-start" }, { type: "text", text: "x" }] })).toBe(false);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "data-failed", data: { text: "x" } }] })).toBe(true);
  expect(isUnanswered(undefined)).toBe(false);
});
