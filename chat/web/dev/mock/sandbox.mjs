// A chat's sandbox in memory: files, state, network.
import { sandboxes, sandboxOf } from "./state.mjs";

const GIB = 1024 ** 3;

export function files(reply, id, url) {
  const path = url.searchParams.get("path") ?? "";
  const box = sandboxes.get(id);
  if (!box) return reply(200, { path, entries: [], nextCursor: null, sandbox: false });
  const entries = new Map();
  for (const [name, body] of box.files) {
    if (path && !name.startsWith(`${path}/`)) continue;
    const [first, ...deeper] = name.slice(path ? path.length + 1 : 0).split("/");
    const full = path ? `${path}/${first}` : first;
    const folder = deeper.length > 0;
    entries.set(full, { name: first, path: full, type: folder ? "directory" : "file", size: folder ? null : body.length, modifiedAt: new Date().toISOString() });
  }
  reply(200, { path, entries: [...entries.values()], nextCursor: null });
}

export function content(response, refuse, id, url) {
  const body = sandboxes.get(id)?.files.get(url.searchParams.get("path"));
  if (!body) return refuse(404, "not_found", "The file does not exist.");
  response.writeHead(200, { "content-type": "application/octet-stream", "content-disposition": "attachment", "x-content-type-options": "nosniff" });
  response.end(body);
}

export async function writeFile(request, reply, id, url) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const path = url.searchParams.get("path");
  sandboxOf(id).files.set(path, body);
  reply(200, { path, size: body.length });
}

export function removeFile(reply, id, url) {
  const path = url.searchParams.get("path");
  const box = sandboxOf(id);
  for (const name of [...box.files.keys()]) if (name === path || name.startsWith(`${path}/`)) box.files.delete(name);
  reply(204);
}

export function look(reply, id) {
  reply(200, info(sandboxes.get(id)));
}

export function removeSandbox(reply, id) {
  sandboxes.delete(id);
  reply(204);
}

export function park(reply, id) {
  const box = sandboxes.get(id);
  if (box) box.state = "parked";
  reply(200, info(box));
}

export function network(reply, id) {
  const { allow, denials } = sandboxes.get(id) ?? { allow: [], denials: [] };
  reply(200, { mode: "allowlist", allow, denials });
}

export async function allowHost(request, reply, refuse, id) {
  const box = sandboxes.get(id);
  if (!box) return refuse(404, "not_found", "The sandbox does not exist.");
  let text = "";
  for await (const chunk of request) text += chunk;
  const { host } = JSON.parse(text);
  box.allow.push(host);
  box.denials = box.denials.filter((denial) => denial.entry !== host);
  network(reply, id);
}

function info(box) {
  const live = box?.state === "running";
  return {
    state: box?.state ?? "none",
    sandboxId: box?.id ?? null,
    provider: "docker",
    seed: { state: box ? "done" : "none", reason: null },
    image: box ? "remcochat-sandbox:node24" : null,
    limits: box ? { memoryBytes: 2 * GIB, cpus: 2, diskBytes: 4 * GIB, pids: 512 } : null,
    usage: live ? { memoryBytes: 143_654_912, diskBytes: 3.6 * GIB, pids: 4 } : null,
    runningCommands: live ? 0 : null,
    expiresAt: box ? new Date(Date.now() + 840_000).toISOString() : null,
    lastActiveAt: box ? new Date(Date.now() - 61_000).toISOString() : null,
    network: box ? { mode: "allowlist", allow: box.allow } : null,
    posture: box
      ? { readonlyRootfs: true, capabilities: [], noNewPrivileges: true, seccomp: "sandboxd", user: "61003:61003", network: "none", runtime: "runc", unenforced: ["a disk's size: this engine's storage has no quota"] }
      : null,
  };
}
