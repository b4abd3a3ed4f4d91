import { expect, it } from "vitest";
import { directCommand, isUnanswered, looksDirect, toggleDirect } from "./words";

it("finds the command that runs without a model", () => {
  expect(directCommand("/bash ls -la")).toBe("ls -la");
  expect(directCommand("bash: pwd")).toBe("pwd");
  expect(directCommand("/bash\nls\npwd")).toBe("ls\npwd");
});

it("leaves other texts alone", () => {
  for (const text of ["what is /bash ls", "/bashful", "/bash ", "bash is a shell"]) expect(directCommand(text)).toBeNull();
  expect(looksDirect("/bash")).toBe(true);
  expect(looksDirect("/bashful")).toBe(false);
});

it("puts the prefix on and takes it off", () => {
  expect(toggleDirect("ls")).toBe("/bash ls");
  expect(toggleDirect("/bash ls")).toBe("ls");
  expect(toggleDirect("")).toBe("/bash ");
  expect(toggleDirect("/bash")).toBe("");
});

it("knows an answer of which nothing came", () => {
  expect(isUnanswered({ id: "1", role: "user", parts: [] })).toBe(true);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "step-start" }] })).toBe(true);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "step-start" }, { type: "text", text: "x" }] })).toBe(false);
  expect(isUnanswered({ id: "1", role: "assistant", parts: [{ type: "data-failed", data: { text: "x" } }] })).toBe(true);
  expect(isUnanswered(undefined)).toBe(false);
});
