// Sends a daemon the requests of the original chat app, in the app's order, and fails at the first response that the
// app would not accept. Usage: SANDBOXD_ADMIN_TOKEN=… node chat.mjs http://127.0.0.1:8080

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { SandboxClient } from "./client.mjs";

const WORKSPACE = "/vercel/sandbox/workspace";
const SOON_MS = 30_000;

const [, , base] = process.argv;
assert.ok(base, "name the daemon's address");
const client = new SandboxClient(`${base}//`, "SANDBOXD_ADMIN_TOKEN");

/** The app's create request for the first tool call of a chat. */
const session = (sessionKey) => ({
  sessionKey,
  runtime: "node24",
  idleTtlMs: 900_000,
  resources: { vcpus: 2, memoryMb: 2048 },
  network: { mode: "default" },
  ports: [3000],
});

/** The app's request for a model's command. */
const bash = (script, timeoutMs = 30_000) => ({ cmd: "bash", args: ["-lc", script], timeoutMs, detached: true });

async function start(sandboxId, script, timeoutMs) {
  const { commandId } = await client.startCommand(sandboxId, bash(script, timeoutMs));
  assert.match(commandId, /^[A-Za-z0-9_-]+$/);
  return commandId;
}

/** Reads both outputs of a command to the end. */
async function collect(sandboxId, commandId) {
  const output = { stdout: "", stderr: "" };
  for await (const { stream, data } of client.streamLogs(sandboxId, commandId)) output[stream] += data;
  return output;
}

async function run(sandboxId, script, timeoutMs) {
  const commandId = await start(sandboxId, script, timeoutMs);
  const output = await collect(sandboxId, commandId);
  return { ...output, ...(await client.waitCommand(sandboxId, commandId)) };
}

async function until(what, condition) {
  const deadline = Date.now() + SOON_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `timed out after ${SOON_MS} ms waiting until ${what}`);
    await sleep(20);
  }
}

const refused = (promise, pattern) => assert.rejects(promise, { name: "Error", message: pattern });

const steps = {
  async "a session is made once and found again"() {
    const made = await client.createOrReconnectSandbox(session("chat:original"));
    assert.equal(made.created, true);
    const again = await client.createOrReconnectSandbox(session("chat:original"));
    assert.deepEqual(again, { sandboxId: made.sandboxId, created: false });
    const both = await Promise.all([1, 2].map(() => client.createOrReconnectSandbox(session("tmp:both"))));
    assert.equal(both[0].sandboxId, both[1].sandboxId);
    assert.deepEqual(both.map(({ created }) => created).sort(), [false, true]);
    await client.stopSandbox(both[0].sandboxId);
    return made.sandboxId;
  },

  async "the outputs come apart and the exit code is the script's"(id) {
    const outcome = await run(id, `cd "${WORKSPACE}" && pwd; echo err >&2; exit 3`);
    assert.deepEqual(outcome, { stdout: `${WORKSPACE}\n`, stderr: "err\n", exitCode: 3 });
    assert.deepEqual(await run(id, "true"), { stdout: "", stderr: "", exitCode: 0 });
    const text = "naïve 日本 𝄞 \\ \"quoted\"\n".repeat(2000);
    await client.writeFiles(id, [{ path: `${WORKSPACE}/long.txt`, content: text }]);
    assert.equal((await run(id, "cat long.txt")).stdout, text);
  },

  async "several readers get everything, from the start and as it comes"(id) {
    const commandId = await start(id, "for i in 1 2 3; do echo $i; done; until [ -e go ]; do sleep 0.05; done; echo end; echo last >&2");
    const seen = [0, 0, 0];
    const follow = async (reader) => {
      const output = { stdout: "", stderr: "" };
      for await (const { stream, data } of client.streamLogs(id, commandId)) {
        output[stream] += data;
        seen[reader] += data.length;
      }
      return output;
    };
    const early = [follow(0), follow(1)];
    await until("two of them have the beginning", () => seen[0] >= 6 && seen[1] >= 6);
    const late = follow(2);
    await until("the third has it too", () => seen[2] >= 6);
    await client.writeFiles(id, [{ path: `${WORKSPACE}/go`, content: "" }]);
    for (const output of await Promise.all([...early, late])) {
      assert.deepEqual(output, { stdout: "1\n2\n3\nend\n", stderr: "last\n" });
    }
    assert.deepEqual(await collect(id, commandId), { stdout: "1\n2\n3\nend\n", stderr: "last\n" }, "after its end");
    assert.deepEqual(await client.waitCommand(id, commandId), { exitCode: 0 });
  },

  async "a reader that leaves ends nothing"(id) {
    const commandId = await start(id, "echo begun; sleep 1; echo ended");
    const leave = new AbortController();
    const reading = (async () => {
      for await (const _ of client.streamLogs(id, commandId, { signal: leave.signal })) leave.abort();
    })();
    await assert.rejects(reading, { name: "AbortError" });
    assert.equal((await client.waitCommand(id, commandId)).exitCode, 0);
    assert.equal((await collect(id, commandId)).stdout, "begun\nended\n");
  },

  async "a script that ignores TERM is killed, and one that does not ends by it"(id) {
    const stubborn = await start(id, "trap '' TERM; echo ready; while :; do sleep 0.1; done");
    const plain = await start(id, "echo ready; exec sleep 60");
    for (const commandId of [stubborn, plain]) {
      for await (const { data } of client.streamLogs(id, commandId)) if (data.includes("ready")) break;
      assert.deepEqual(await client.killCommand(id, commandId), { ok: true });
    }
    assert.deepEqual(await client.waitCommand(id, stubborn), { exitCode: 137 });
    assert.deepEqual(await client.waitCommand(id, plain), { exitCode: 143 });
    assert.deepEqual(await client.killCommand(id, plain), { ok: true }, "once more");
    assert.equal((await run(id, "pgrep -c sleep")).stdout, "0\n", "nothing is left of them");
  },

  async "a command that runs out of time ends with 124"(id) {
    const outcome = await run(id, "echo partial; sleep 60", 1000);
    assert.deepEqual(outcome, { stdout: "partial\n", stderr: "", exitCode: 124 });
  },

  async "files are written and read as they are"(id) {
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 256));
    const files = [
      { path: `${WORKSPACE}/dir/below/text.txt`, content: "naïve 日本\n" },
      { path: `${WORKSPACE}/bytes.bin`, content: bytes },
      { path: `${WORKSPACE}/a name?&#%20 with 'marks'.txt`, content: "marked" },
    ];
    assert.deepEqual(await client.writeFiles(id, files), { ok: true });
    for (const { path, content } of files) {
      assert.deepEqual(await client.readFile(id, path), Buffer.from(content), path);
    }
    assert.equal((await run(id, "cat dir/below/text.txt; wc -c < bytes.bin")).stdout, "naïve 日本\n100000\n");
    // As the app seeds a workspace: 25 files per request.
    const seed = Array.from({ length: 25 }, (_, at) => ({ path: `${WORKSPACE}/seed/${at}/file`, content: `${at}` }));
    assert.deepEqual(await client.writeFiles(id, seed), { ok: true });
    assert.equal((await run(id, "find seed -type f | wc -l")).stdout, "25\n");
    assert.equal(await client.readFile(id, `${WORKSPACE}/missing`), null);
    assert.equal(await client.readFile(id, `${WORKSPACE}/missing/missing`), null);
  },

  async "no path leads out of the workspace"(id) {
    for (const path of ["/etc/passwd", `${WORKSPACE}/../../../etc/passwd`, `${WORKSPACE}-not/file`]) {
      await refused(client.readFile(id, path), /^sandboxd 422: .*"error"/);
      await refused(client.writeFiles(id, [{ path, content: "x" }]), /^sandboxd 422: /);
    }
    await refused(client.readFile(id, ""), /^sandboxd 400: /);
    await refused(client.writeFiles(id, []), /^sandboxd 400: /);
  },

  async "a declared port has a URL, and another has none"(id) {
    assert.equal(await client.getPortUrl(id, 3999), null);
    assert.match(await client.getPortUrl(id, 3000), /^http:\/\/.+/);
  },

  async "unknown objects return 404"(id) {
    await refused(client.waitCommand(id, "cmd_0000000000000000"), /^sandboxd 404: /);
    await refused(client.waitCommand(id, "a/b c"), /^sandboxd 404: /);
    await refused(client.startCommand("unknown", bash("true")), /^sandboxd 404: /);
    await refused(client.readFile("unknown", `${WORKSPACE}/file`), /^sandboxd 404: /);
  },

  async "other tokens are rejected"(id) {
    process.env.WRONG_TOKEN = "wrong";
    for (const stranger of [new SandboxClient(base, "WRONG_TOKEN"), new SandboxClient(base, "NO_SUCH_VARIABLE")]) {
      await refused(stranger.createOrReconnectSandbox(session("chat:original")), /^sandboxd 401: /);
      await refused(stranger.stopSandbox(id), /^sandboxd 401: /);
    }
    const health = await fetch(`${base}/v1/health`);
    const { ok, engine, version } = await health.json();
    assert.deepEqual([health.status, ok, engine, typeof version], [200, true, "docker", "string"]);
  },

  async "a stop may be repeated"(id) {
    for (const one of [id, id, "unknown"]) assert.deepEqual(await client.stopSandbox(one), { ok: true });
    await refused(client.startCommand(id, bash("true")), /^sandboxd 404: /);
    const recreated = await client.createOrReconnectSandbox(session("chat:original"));
    assert.equal(recreated.created, true);
    assert.equal((await run(recreated.sandboxId, "ls -A")).stdout, "", "its files are deleted");
    await client.stopSandbox(recreated.sandboxId);
  },
};

let sandboxId;
for (const [name, step] of Object.entries(steps)) {
  try {
    sandboxId = (await step(sandboxId)) ?? sandboxId;
    console.log(`ok   ${name}`);
  } catch (error) {
    console.log(`FAIL ${name}`);
    console.error(error);
    process.exit(1);
  }
}
