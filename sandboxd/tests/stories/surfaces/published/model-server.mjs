// A model that follows a script: it opens a sandbox, runs a command in it, and repeats the command's result. It speaks the
// Messages API of Anthropic and the Responses API of OpenAI, as streams. It prints its port.

import { createServer } from 'node:http'

const MAX_WAITS = 5
const COMMAND = 'echo model-$((40 + 2))'

/** The next step, from the results of the sandbox's tools so far. */
function next(tools, results) {
  const named = (end) => tools.find((name) => name.endsWith(end))
  const last = results.at(-1)
  if (!named('sandbox_open')) return { text: 'ok' }
  if (results.length === 0) return { tool: named('sandbox_open'), input: {} }
  if (results.length === 1)
    return { tool: named('bash'), input: { sandbox: handleOf(last), command: COMMAND } }
  return { text: `The command has written: ${last}` }
}

function handleOf(result) {
  return /"sandbox":\s*"([^"]+)"/.exec(result)?.[1] ?? 'none'
}

const textOf = (content) =>
  typeof content === 'string'
    ? content
    : (content ?? []).map((part) => part.text ?? JSON.stringify(part)).join('\n')

function messages(request) {
  const results = request.messages
    .flatMap((message) => (Array.isArray(message.content) ? message.content : []))
    .filter((part) => part.type === 'tool_result')
    .map((part) => textOf(part.content))
  const tools = (request.tools ?? []).map((tool) => tool.name)
  const step = next(tools, results)
  const block =
    step.text === undefined
      ? [
          { type: 'tool_use', id: `toolu_${results.length}`, name: step.tool, input: {} },
          { type: 'input_json_delta', partial_json: JSON.stringify(step.input) },
        ]
      : [
          { type: 'text', text: '' },
          { type: 'text_delta', text: step.text },
        ]
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: request.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  }
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: block[0] },
    { type: 'content_block_delta', index: 0, delta: block[1] },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: step.text === undefined ? 'tool_use' : 'end_turn', stop_sequence: null },
      usage,
    },
    { type: 'message_stop' },
  ]
}

function responses(request) {
  const outputs = request.input.filter((item) => item.type === 'function_call_output')
  const results = outputs
    .filter((item) => item.call_id.startsWith('call_'))
    .map((item) => textOf(item.output))
  const tools = (request.tools ?? []).flatMap((tool) =>
    tool.type === 'namespace' ? tool.tools.map((inner) => ({ ...inner, namespace: tool.name })) : [tool],
  )
  const names = tools.map((tool) => tool.name ?? '')
  // Codex asks the model before its MCP servers have answered. A list of their resources waits for them.
  const isEarly = !names.includes('sandbox_open') && outputs.length < MAX_WAITS
  const step = isEarly ? { tool: 'list_mcp_resources', input: {} } : next(names, results)
  const called = tools.find((tool) => tool.name === step.tool)
  const call = `${isEarly ? 'wait' : 'call'}_${outputs.length}`
  const item =
    step.text === undefined
      ? {
          type: 'function_call',
          id: `fc_${outputs.length}`,
          call_id: call,
          name: step.tool,
          ...(called?.namespace && { namespace: called.namespace }),
          arguments: JSON.stringify(step.input),
        }
      : {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: step.text, annotations: [] }],
        }
  const response = {
    id: 'resp_1',
    object: 'response',
    model: request.model,
    status: 'completed',
    output: [item],
    usage: {
      input_tokens: 1,
      output_tokens: 1,
      total_tokens: 2,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  }
  return [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response },
  ]
}

const server = createServer((request, response) => {
  let body = ''
  request.on('data', (part) => (body += part))
  request.on('end', () => {
    const answer = /\/messages(\?|$)/.test(request.url)
      ? messages
      : /\/responses$/.test(request.url)
        ? responses
        : null
    if (request.method !== 'POST' || !answer) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of answer(JSON.parse(body)))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    response.end()
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
