// The original chat app's client, written from its wire contract: its requests, and its tolerance for responses.
//
// It does not know sandboxd's later fields and routes. No change of the daemon may break it, so this file follows the
// contract and never the daemon.

/** A client of one daemon. */
export class SandboxClient {
  #base;
  #token;

  /** `tokenEnv` is the name of the environment variable that holds the token, read once. */
  constructor(base, tokenEnv) {
    this.#base = base.replace(/\/+$/, "");
    this.#token = process.env[tokenEnv] ?? "";
  }

  async createOrReconnectSandbox(request) {
    const answer = await this.#json("POST", "/v1/sandboxes", request);
    return { sandboxId: String(answer.sandboxId ?? ""), created: Boolean(answer.created) };
  }

  async startCommand(sandboxId, { cmd, args, timeoutMs, detached }) {
    const path = `${sandboxPath(sandboxId)}/commands`;
    const answer = await this.#json("POST", path, { cmd, args, timeoutMs, detached });
    return { commandId: String(answer.commandId ?? "") };
  }

  async waitCommand(sandboxId, commandId) {
    const answer = await this.#json("GET", `${commandPath(sandboxId, commandId)}/wait`);
    const exitCode = Number(answer.exitCode);
    return { exitCode: answer.exitCode != null && Number.isFinite(exitCode) ? exitCode : 1 };
  }

  async killCommand(sandboxId, commandId) {
    const answer = await this.#json("POST", `${commandPath(sandboxId, commandId)}:kill`, {});
    return { ok: Boolean(answer.ok) };
  }

  /** Yields `{stream, data}` for the two outputs; streams of other names are skipped. */
  async *streamLogs(sandboxId, commandId, { signal } = {}) {
    const response = await this.#send("GET", `${commandPath(sandboxId, commandId)}/logs`, { signal });
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of response.body ?? []) {
      rest += decoder.decode(bytes, { stream: true });
      const lines = rest.split("\n");
      // An incomplete last line is discarded.
      rest = lines.pop() ?? "";
      for (const line of lines.map((line) => line.trim()).filter(Boolean)) {
        const record = JSON.parse(line);
        if (record.stream === "stdout" || record.stream === "stderr") {
          yield { stream: record.stream, data: String(record.data ?? "") };
        }
      }
    }
  }

  async readFile(sandboxId, path) {
    const query = new URLSearchParams({ path });
    const answer = await this.#json("GET", `${sandboxPath(sandboxId)}/files:read?${query}`);
    return answer.found ? Buffer.from(String(answer.contentBase64 ?? ""), "base64") : null;
  }

  async writeFiles(sandboxId, files) {
    const wire = files.map(({ path, content }) => ({
      path,
      contentBase64: Buffer.from(content).toString("base64"),
    }));
    const answer = await this.#json("POST", `${sandboxPath(sandboxId)}/files:write`, { files: wire });
    return { ok: Boolean(answer.ok) };
  }

  async getPortUrl(sandboxId, port) {
    const answer = await this.#json("GET", `${sandboxPath(sandboxId)}/ports/${encodeURIComponent(String(port))}`);
    return answer.found ? String(answer.url ?? "") : null;
  }

  async stopSandbox(sandboxId) {
    const answer = await this.#json("POST", `${sandboxPath(sandboxId)}:stop`, {});
    return { ok: Boolean(answer.ok) };
  }

  async #json(method, path, body) {
    const response = await this.#send(method, path, { body });
    const answer = await response.json();
    return answer !== null && typeof answer === "object" ? answer : {};
  }

  async #send(method, path, { body, signal } = {}) {
    const headers = { accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.#token) headers["x-remcochat-admin-token"] = this.#token;
    const response = await fetch(`${this.#base}${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    if (!response.ok) {
      const text = await response.text().catch(() => "");
      throw new Error(`sandboxd ${response.status}: ${text || response.statusText}`);
    }
    return response;
  }
}

function sandboxPath(sandboxId) {
  return `/v1/sandboxes/${encodeURIComponent(sandboxId)}`;
}

function commandPath(sandboxId, commandId) {
  return `${sandboxPath(sandboxId)}/commands/${encodeURIComponent(commandId)}`;
}
