import { afterEach, describe, expect, it, vi } from "vitest";
import { forgetTicket, setAdminToken, setTicket, wantToken } from "../api/credentials";
import { useAccess } from "../access/store";
import { ApiError } from "../api/error";
import type { ChatMessage } from "../api/types";
import { newId } from "./ids";
import { bodyOf, transportFor } from "./transport";

const message = (id: string, text: string): ChatMessage => ({ id, role: "user", parts: [{ type: "text", text }] });
const outgoing = { id: "c", messages: [message("1", "a"), message("2", "b")], trigger: "submit-message" as const, messageId: undefined, model: undefined };

afterEach(() => {
  vi.unstubAllGlobals();
  setAdminToken("");
  wantToken(true);
  forgetTicket("tmp_1");
});

describe("the body", () => {
  it("contains only the last message, and no empty fields", () => {
    expect(bodyOf(outgoing, false)).toEqual({ id: "c", trigger: "submit-message", messages: [message("2", "b")] });
  });
  it("contains all messages of a temporary chat", () => {
    expect(bodyOf(outgoing, true)["messages"]).toHaveLength(2);
  });
  it("contains the message that is answered again, and the model", () => {
    const body = bodyOf({ ...outgoing, trigger: "regenerate-message", messageId: "m", model: "local/x" }, false);
    expect(body).toMatchObject({ trigger: "regenerate-message", messageId: "m", model: "local/x" });
  });
});

describe("a request", () => {
  const send = (answer: Response, begun = vi.fn()) => {
    const fetcher = vi.fn<(url: string, init: RequestInit) => Promise<Response>>(() => Promise.resolve(answer));
    vi.stubGlobal("fetch", fetcher);
    const transport = transportFor("tmp_1", true, { began: begun, stopped: vi.fn() });
    const done = transport.sendMessages({ chatId: "tmp_1", messages: [message("1", "a")], trigger: "submit-message", messageId: undefined, abortSignal: undefined, body: { model: "m" } });
    return { done, fetcher, begun };
  };

  it("sends the token and the ticket, and records whether tools were enabled", async () => {
    setAdminToken("secret");
    setTicket("tmp_1", "ticket");
    const { done, fetcher, begun } = send(new Response("data: [DONE]\n\n", { headers: { "x-remcochat-bash-tools-enabled": "1" } }));
    await done;
    const [url, init] = fetcher.mock.calls[0] ?? [];
    const headers = new Headers(init?.headers);
    expect(url).toBe("/api/chat");
    expect(headers.get("x-remcochat-admin-token")).toBe("secret");
    expect(headers.get("x-chat-ticket")).toBe("ticket");
    expect(headers.get("x-remcochat-viewer-timezone")).toBe(Intl.DateTimeFormat().resolvedOptions().timeZone);
    expect(headers.get("content-type")).toBe("application/json");
    expect(JSON.parse(init?.body as string)).toMatchObject({ id: "tmp_1", model: "m" });
    expect(begun).toHaveBeenCalledOnce();
    expect(useAccess.getState().lastHeader).toBe("1");
  });

  it("sends no token to a server that allows only its own machine", async () => {
    setAdminToken("secret");
    wantToken(false);
    const { done, fetcher } = send(new Response("data: [DONE]\n\n"));
    await done;
    expect(new Headers(fetcher.mock.calls[0]?.[1].headers).get("x-remcochat-admin-token")).toBeNull();
  });

  it("throws the server's message if it is rejected", async () => {
    const { done, begun } = send(Response.json({ error: "No model is connected.", code: "no_model" }, { status: 422 }));
    await expect(done).rejects.toMatchObject(new ApiError(422, "no_model", "No model is connected."));
    expect(begun).not.toHaveBeenCalled();
  });
});

it("creates ids that the server accepts", () => {
  expect(newId()).toMatch(/^[A-Za-z0-9_-]{22}$/);
  expect(newId()).not.toBe(newId());
});
