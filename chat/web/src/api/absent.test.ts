import { afterEach, expect, it, vi } from "vitest";
import { listFiles } from "./files";
import { getSandbox } from "./sandbox";

const answers = (status: number) =>
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({ error: "there is no such chat", code: "not_found" }, { status })));

afterEach(() => vi.unstubAllGlobals());

it("treats a missing chat as one without a sandbox", async () => {
  answers(404);
  expect(await getSandbox("new")).toMatchObject({ state: "none", sandboxId: null });
  expect(await listFiles("new", "", null)).toEqual({ path: "", entries: [], nextCursor: null, sandbox: false });
});

it("reports every other failure, and a missing folder", async () => {
  answers(404);
  await expect(listFiles("new", "folder", null)).rejects.toMatchObject({ status: 404 });
  answers(503);
  await expect(getSandbox("new")).rejects.toMatchObject({ status: 503 });
  await expect(listFiles("new", "", null)).rejects.toMatchObject({ status: 503 });
});
