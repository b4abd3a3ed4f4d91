// Runs Vercel's own client against the fake. Usage: node vercel_npm.mjs BASE TOKEN TEAM PROJECT
import assert from "node:assert/strict";
import { Sandbox } from "@vercel/sandbox";

const [base, token, teamId, projectId] = process.argv.slice(2);
const redirected = (url, options) => fetch(String(url).replace("https://vercel.com/api", base), options);
const who = { token, teamId, projectId, fetch: redirected };

const sandbox = await Sandbox.create({ ...who, runtime: "node22", ports: [3000], resources: { vcpus: 2 }, timeout: 300_000, name: "npm-1" });
assert.equal(sandbox.name, "npm-1");
assert.equal(sandbox.status, "running");
assert.ok(sandbox.domain(3000).startsWith("https://npm-1-3000."));

const waited = await sandbox.runCommand("bash", ["-c", "echo out; echo err >&2; exit 3"]);
assert.equal(waited.exitCode, 3);
assert.deepEqual([await waited.stdout(), await waited.stderr()], ["out\n", "err\n"]);

const detached = await sandbox.runCommand({ cmd: "bash", args: ["-c", "for i in 1 2 3; do echo $i; sleep 0.1; done"], detached: true });
let lines = "";
for await (const { stream, data } of detached.logs()) {
  assert.equal(stream, "stdout");
  lines += data;
}
assert.equal(lines, "1\n2\n3\n");
assert.equal((await detached.wait()).exitCode, 0);

const killed = await sandbox.runCommand({ cmd: "sleep", args: ["1119"], detached: true });
await killed.kill("SIGKILL");
assert.equal((await killed.wait()).exitCode, 137);

await sandbox.mkDir("dir");
await sandbox.writeFiles([{ path: "dir/ä b.txt", content: Buffer.from("content") }, { path: "/vercel/sandbox/abs", content: Buffer.from("1") }]);
assert.equal((await sandbox.readFileToBuffer({ path: "dir/ä b.txt" })).toString(), "content");
assert.equal((await sandbox.runCommand("cat", ["abs"])).exitCode, 0);
assert.equal(await sandbox.readFileToBuffer({ path: "none" }), null);

await sandbox.stop();
const woken = await Sandbox.get({ ...who, name: "npm-1", resume: true });
assert.equal(await (await woken.runCommand("cat", ["dir/ä b.txt"])).stdout(), "content");
await woken.delete();
await assert.rejects(Sandbox.get({ ...who, name: "npm-1" }), (error) => error.response.status === 404);
console.log("as Vercel");
