// The server's routes, answered from memory, with the server's errors.
import { randomUUID } from "node:crypto";
import { answer, join } from "./answer.mjs";
import { allowHost, content, files, look, network, park, removeFile, removeSandbox, writeFile } from "./sandbox.mjs";
import { changes, chats, sandboxes, stopped, tell, tickets, token, conditions } from "./state.mjs";

const models = process.env.MOCK_MODELS === "0" ? [] : [
  { id: "local/qwen3", name: "qwen3", provider: "openai" },
  { id: "anthropic/claude", name: "claude", provider: "anthropic" },
];

/** The mock is an app without accounts. */
const noAccounts = ({ refuse }) => refuse(404, "not_found", "this app has no accounts; `chat user add` on its machine makes the first one");

/** The mock has no programs. */
const noTerminals = ({ refuse }) => refuse(422, "refused", "the mock has no terminals");

/** Every route of the mock, by `METHOD /path`. Only routes of the server are allowed: routes.test.mjs compares them. */
export const routes = {
  "GET /api/health": ({ reply }) => reply(200, { ok: true, version: "0.1.0" }),
  "GET /api/app": ({ reply, mayUse }) => reply(200, appInfo(mayUse)),
  "GET /api/admin/access": ({ reply, given, mayUse }) => reply(200, access(given, mayUse)),
  "POST /api/temporary": ({ reply }) => {
    const temporary = `tmp_${randomUUID().slice(0, 8)}`;
    tickets.set(temporary, randomUUID());
    reply(200, { id: temporary, ticket: tickets.get(temporary) });
  },
  "POST /api/chat": say,
  "GET /api/changes": ({ response }) => changes(response),
  "GET /api/chats": ({ reply, url }) => reply(200, list(url)),
  "GET /api/chats/{id}": ({ reply, chat }) => reply(200, chat),
  "PATCH /api/chats/{id}": async ({ request, reply, chat }) => {
    Object.assign(chat, JSON.parse(await read(request)));
    tell(chat.id);
    reply(200, summary(chat));
  },
  "DELETE /api/chats/{id}": ({ reply, id }) => {
    chats.delete(id);
    sandboxes.delete(id);
    tell(id);
    reply(204);
  },
  "GET /api/chats/{id}/stream": ({ response, id }) => join(response, id),
  "POST /api/chats/{id}/stop": ({ reply, id }) => {
    stopped.add(id);
    reply(204);
  },
  "GET /api/chats/{id}/sandbox": ({ reply, id }) => look(reply, id),
  "DELETE /api/chats/{id}/sandbox": ({ reply, id }) => removeSandbox(reply, id),
  "POST /api/chats/{id}/sandbox/park": ({ reply, id }) => park(reply, id),
  "GET /api/chats/{id}/network": ({ reply, id }) => network(reply, id),
  "POST /api/chats/{id}/network/allow": ({ request, reply, refuse, id }) => allowHost(request, reply, refuse, id),
  "GET /api/chats/{id}/files": ({ reply, id, url }) => files(reply, id, url),
  "DELETE /api/chats/{id}/files": ({ reply, id, url }) => removeFile(reply, id, url),
  "GET /api/chats/{id}/files/content": ({ response, refuse, id, url }) => content(response, refuse, id, url),
  "PUT /api/chats/{id}/files/content": ({ request, reply, id, url }) => writeFile(request, reply, id, url),
  "GET /api/chats/{id}/terminals": ({ reply }) => reply(200, { terminals: [] }),
  "POST /api/chats/{id}/terminals": noTerminals,
  "DELETE /api/chats/{id}/terminals/{terminal}": ({ reply }) => reply(204),
  "POST /api/chats/{id}/terminals/{terminal}/ticket": noTerminals,
  "GET /api/terminals/{ticket}": noTerminals,
  "POST /api/session": noAccounts,
  "DELETE /api/session": noAccounts,
  "PUT /api/account/password": noAccounts,
  "GET /api/account/sessions": noAccounts,
  "DELETE /api/account/sessions/{session}": noAccounts,
  "GET /api/users": noAccounts,
  "PATCH /api/users/{user}": noAccounts,
  "DELETE /api/users/{user}/sessions": noAccounts,
  "GET /api/invitations": noAccounts,
  "POST /api/invitations": noAccounts,
  "POST /api/invitations/accept": noAccounts,
  "POST /api/oidc": noAccounts,
  "GET /api/oidc/callback": noAccounts,
  "DELETE /api/invitations/{invitation}": noAccounts,
};

/** The routes that are open to all clients, as in the server. */
const OPEN = /^GET \/api\/(health|app|admin\/access)$/;
const OF_TOOLS = /^\S+ \/api\/chats\/\{id\}\/./;

export async function api(request, response, url) {
  const reply = (status, body, headers = {}) => {
    response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers });
    response.end(body === undefined ? "" : JSON.stringify(body));
  };
  const refuse = (status, code, error) => reply(status, { error, code });
  const given = request.headers["x-remcochat-admin-token"] ?? "";
  const mayUse = !token || given === token;
  const [, id, rest] = url.pathname.match(/^\/api\/chats\/([^/]+)(.*)/) ?? [];
  const route = `${request.method} ${id ? `/api/chats/{id}${rest}` : url.pathname}`;
  const answers = Object.hasOwn(routes, route) ? routes[route] : undefined;

  if (!mayUse && !OPEN.test(route)) return refuse(401, "unauthorized", "Enter the admin token of this server.");
  if (!answers) return refuse(404, "not_found", "The route does not exist.");
  if (OF_TOOLS.test(route) && conditions.toolsDown) return refuse(403, "tools_disabled", "sandboxd does not respond.");
  const chat = chats.get(id);
  const ticket = request.headers["x-chat-ticket"];
  if (id && !chat && ticket === undefined) return refuse(404, "not_found", "The chat does not exist.");
  return answers({ request, response, url, reply, refuse, given, mayUse, id, chat, ticket });
}

/** Changes the simulated conditions. This route exists only in the mock. */
export async function changeConditions(request, response) {
  Object.assign(conditions, JSON.parse(await read(request)));
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(conditions));
}

async function say({ request, response, refuse, ticket }) {
  const body = JSON.parse(await read(request));
  const text = body.messages.at(-1).parts.map((part) => part.text ?? "").join("");
  if (models.length === 0 && !/^\s*(\/bash\s|bash:)/.test(text)) return refuse(422, "no_model", "No model is connected. Commands work: start with /bash.");
  if (chats.get(body.id)?.running) return refuse(409, "busy", "This chat is already being answered.");
  return answer(request, response, body, ticket !== undefined);
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
  const reason = conditions.toolsDown ? "sandboxd does not respond at http://127.0.0.1:8080." : null;
  return {
    version: "0.1.0",
    access: token ? "lan" : "localhost",
    mayUse,
    accounts: false,
    user: null,
    identityProvider: false,
    tools: { enabled: mayUse && !conditions.toolsDown, reason, isPassing: conditions.toolsDown, provider: "docker", ports: [3000], commandTimeoutMs: 30_000, maxStdoutChars: 12_000, maxStderrChars: 12_000 },
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
