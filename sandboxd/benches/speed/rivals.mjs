// Runs `bash -c true` with the package that the argument names, as often as each line of input says, and answers with the
// nanoseconds of each call as a JSON array.

import { createInterface } from "node:readline";

async function runnerOf(name) {
  if (name === "just-bash") {
    const { Bash } = await import("just-bash");
    const bash = new Bash();
    return () => bash.exec("bash -c true");
  }
  const { createBashTool } = await import("bash-tool");
  const { tools } = await createBashTool();
  return () => tools.bash.execute({ command: "bash -c true" }, { toolCallId: "bench", messages: [] });
}

const run = await runnerOf(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  const times = [];
  for (let count = Number(line); count > 0; count--) {
    const began = process.hrtime.bigint();
    const { exitCode } = await run();
    times.push(Number(process.hrtime.bigint() - began));
    if (exitCode !== 0) throw new Error(`exit code ${exitCode}`);
  }
  console.log(JSON.stringify(times));
}
