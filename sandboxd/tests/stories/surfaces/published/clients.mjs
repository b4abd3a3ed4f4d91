// Uses the tools with the protocol's own client and with the AI SDK, in every way they negotiate the revision.
// Arguments: the URL of the server, the token.

import assert from 'node:assert/strict'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createMCPClient } from '@ai-sdk/mcp'
import { isStepCount, streamText } from 'ai'
import { MockLanguageModelV4, simulateReadableStream } from 'ai/test'

const [url, token] = process.argv.slice(2)
const headers = (session) => ({ authorization: `Bearer ${token}`, 'x-sandbox-session': session })

for (const mode of ['legacy', 'auto', { pin: '2026-07-28' }]) {
  const client = new Client({ name: 'story', version: '1' }, { versionNegotiation: { mode } })
  const requestInit = { headers: headers('client') }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
  const { tools } = await client.listTools()
  assert.ok(tools.some((tool) => tool.name === 'bash'))
  const called = await client.callTool({ name: 'bash', arguments: { command: 'echo from $((6 * 7)); exit 3' } })
  assert.deepEqual([called.structuredContent.stdout, called.structuredContent.exitCode], ['from 42\n', 3])
  assert.notEqual(called.isError, true)
  await client.callTool({ name: 'write', arguments: { path: 'note.txt', content: 'a resource\n' } })
  const { resources } = await client.listResources()
  const { contents } = await client.readResource({ uri: resources.find(({ name }) => name === 'note.txt').uri })
  assert.equal(contents[0].text, 'a resource\n')
  await client.close()
}

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const stream = (parts, reason) => ({
  stream: simulateReadableStream({
    chunks: [{ type: 'stream-start', warnings: [] }, ...parts, { type: 'finish', finishReason: { unified: reason }, usage }],
  }),
})
const input = JSON.stringify({ command: 'echo by the model' })
const call = { type: 'tool-call', toolCallId: 'call-1', toolName: 'bash', input }
const text = [
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'Done.' },
  { type: 'text-end', id: '1' },
]
const model = new MockLanguageModelV4({ doStream: [stream([call], 'tool-calls'), stream(text, 'stop')] })
const mcp = await createMCPClient({ transport: { type: 'http', url, headers: headers('ai-sdk') } })
const result = streamText({ model, tools: await mcp.tools(), stopWhen: isStepCount(3), prompt: 'Say hello.' })
const parts = []
for await (const part of result.fullStream) parts.push(part)
const answer = parts.find((part) => part.type === 'tool-result')
assert.match(JSON.stringify(answer?.output), /by the model/, JSON.stringify(parts))
assert.equal(await result.text, 'Done.')
assert.match(JSON.stringify(model.doStreamCalls[1].prompt), /by the model/)
await mcp.close()

console.log('as published')
