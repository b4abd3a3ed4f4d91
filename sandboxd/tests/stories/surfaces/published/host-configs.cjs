// Reads the configurations of LibreChat, with its own schema, and of Open WebUI.
const assert = require('node:assert');
const { readFileSync } = require('node:fs');
const yaml = require('js-yaml');
const { configSchema } = require('librechat-data-provider');

const url = 'http://sandboxd:8080/mcp?profile=chat';
const load = (file) => yaml.load(readFileSync(file, 'utf8'));

const librechat = configSchema.strict().parse({ version: '1.2.1', ...load('librechat.yaml') });
assert.equal(librechat.mcpServers.sandbox.url, url);
assert.equal(librechat.mcpServers.sandbox.headers['X-Sandbox-Session'], '{{LIBRECHAT_BODY_CONVERSATIONID}}');

const environment = load('docker-compose.yml').services['open-webui'].environment;
const [connection] = JSON.parse(environment.TOOL_SERVER_CONNECTIONS);
assert.deepEqual([connection.url, connection.key], [url, '${SANDBOX_TOKEN}']);
