// Checks the configurations of Claude Desktop, Cursor and VS Code against what these hosts publish in packages. Each check
// also refuses a configuration with a wrong key, so that it is known to check something.
import assert from "node:assert";
import { readFileSync, writeFileSync } from "node:fs";
import { v0_4 as claudeDesktop } from "@anthropic-ai/mcpb";
import { mcpServerSchema } from "@codingame/monaco-vscode-api/vscode/vs/workbench/contrib/mcp/common/mcpConfiguration";
import { Ajv } from "ajv";
import ts from "typescript";

const load = (host) => JSON.parse(readFileSync(`${host}.json`, "utf8"));
const misspelled = (value, key) => JSON.parse(JSON.stringify(value).replace(`"${key}":`, `"${key}s":`));

function check(host, key, isValid) {
  const configuration = load(host);
  assert(isValid(configuration), `${host}: ${JSON.stringify(configuration)}`);
  assert(!isValid(misspelled(configuration, key)), `${host}: \`${key}s\` should be refused`);
}

// Claude Desktop starts a server of an extension with the same three fields as one of its configuration file.
check("claude-desktop", "command", ({ mcpServers }) =>
  Object.values(mcpServers).every((server) => claudeDesktop.McpServerConfigSchema.safeParse(server).success));

// VS Code's own schema, as its page of this file uses it. Ajv knows its identifier under another name.
const { id: _, ...schema } = mcpServerSchema;
const isVsCode = new Ajv({ strict: false, formats: { uri: true } }).compile(schema);
check("vscode", "url", isVsCode);
check("vscode", "password", isVsCode);

// Cursor publishes the type of a server.
check("cursor", "url", ({ mcpServers }) => {
  const text = JSON.stringify(mcpServers);
  writeFileSync(
    "cursor.mts",
    `import type { McpServerConfig } from "@cursor/sdk";\nexport const servers: Record<string, McpServerConfig> = ${text};\n`,
  );
  const options = { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, strict: true, skipLibCheck: true, noEmit: true };
  return ts.getPreEmitDiagnostics(ts.createProgram(["cursor.mts"], options)).length === 0;
});
