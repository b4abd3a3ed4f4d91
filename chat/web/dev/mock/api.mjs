// The contract's routes. Refusals are the contract's too.
import { randomUUID } from "node:crypto";
import { answer } from "./answer.mjs";
import { content, files, removeFile, sandbox, writeFile } from "./sandbox.mjs";
import { chats, sandboxes, tickets, token, weather } from "./state.mjs";

const models = process.env.MOCK_MODELS === "0" ? [] : [
  { id: "local/qwen3", name: "qwen3", provider: "openai" },
  { id: "anthropic/claude", name: "claude", provider: "anthropic" },
];

export async function api(request, response, url) {
  const reply = (status, body, headers = {}) => {
    response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers });
    response.end(body === undefined ? "" : JSON.stringify(body));
  };
  const refuse = (status, code, error) => reply(status, { error, code });
  const given = request.headers["x-remcochat-admin-token"] ?? "";
  const mayUse = !token || given === token;
  const [, , room, id, what, more] = url.pathname.split("/");
  const method = request.method;

  if (room === "health") return reply(200, { ok: true, version: "0.1.0" });
  if (room === "mock") return reply(200, Object.assign(weather, JSON.parse(await read(request))));
  if (room === "app") return reply(200, appInfo(mayUse));
  if (room === "admin") return reply(200, access(given, mayUse));
  if (!mayUse) return refuse(401, "unauthorized", "Give the admin token of this server.");

  if (room === "temporary") {
    const temporary = `tmp_${randomUUID().slice(0, 8)}`;
    tickets.set(temporary, randomUUID());
    return reply(200, { id: temporary, ticket: tickets.get(temporary) });
  }
  if (room === "chat") {
    const body = JSON.parse(await read(request));
    const text = body.messages.at(-1).parts.map((part) => part.text ?? "").join("");
    if (models.length === 0 && !/^\s*(\/bash\s|bash:)/.test(text)) return refuse(422, "no_model", "No model is connected. Commands work: start with /bash.");
    if (chats.get(body.id)?.running) return refuse(409, "busy", "This chat is being answered already.");
    return answer(request, response, body, request.headers["x-chat-ticket"] !== undefined);
  }
  if (room !== "chats") return refuse(404, "not_found", "There is no such address.");
  if (!id) return reply(200, list(url));
  if (what) {
    if (weather.toolsDown) return refuse(403, "tools_disabled", "sandboxd does not answer.");
    if (what === "files" && more === "content" && method === "PUT") return writeFile(request, reply, id, url);
    if (what === "files" && more === "content") return content(response, refuse, id, url);
    if (what === "files" && method === "DELETE") return removeFile(reply, id, url);
    if (what === "files") return files(reply, id, url);
    return sandbox(request, reply, refuse, id, what, more);
  }
  return oneChat(request, reply, refuse, id);
}

async function oneChat(request, reply, refuse, id) {
  const chat = chats.get(id);
  if (!chat) return refuse(404, "not_found", "There is no such chat.");
  if (request.method === "DELETE") {
    chats.delete(id);
    sandboxes.delete(id);
    return reply(204);
  }
  if (request.method === "PATCH") {
    chat.title = JSON.parse(await read(request)).title;
    return reply(200, summary(chat));
  }
  return reply(200, chat);
}

function list(url) {
  const from = Number(url.searchParams.get("cursor") ?? 0);
  const limit = Number(url.searchParams.get("limit") ?? 30);
  const sorted = [...chats.values()].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
  const next = from + limit;
  return { chats: sorted.slice(from, next).map(summary), nextCursor: next < sorted.length ? String(next) : null };
}

function summary({ id, title, createdAt, updatedAt, model }) {
  return { id, title, createdAt, updatedAt, model };
}

function appInfo(mayUse) {
  const reason = weather.toolsDown ? "sandboxd does not answer at http://127.0.0.1:8080." : null;
  return {
    version: "0.1.0",
    access: token ? "lan" : "localhost",
    mayUse,
    tools: { enabled: mayUse && !weather.toolsDown, reason, isPassing: weather.toolsDown, provider: "docker", ports: [3000], commandTimeoutMs: 30_000, maxStdoutChars: 12_000, maxStderrChars: 12_000 },
    models,
    defaultModel: models[0]?.id ?? null,
    limits: { messageChars: 100_000, commandChars: 8_000, uploadBytes: 104_857_600 },
  };
}

function access(given, allowed) {
  const reason = !token ? "localhost" : allowed ? "allowed" : given ? "token_mismatch" : "missing_client_token";
  return { isLocalhost: !token, requiredConfigured: Boolean(token), tokenProvided: Boolean(given), allowed, reason };
}

async function read(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
