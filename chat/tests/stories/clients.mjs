// One major version of the AI SDK as a page uses it, against the chat app: text, a running tool, an error, and an answer that is
// left, joined and stopped.
import assert from 'node:assert/strict';

const [major, base, chat] = process.argv.slice(2);
const { DefaultChatTransport, readUIMessageStream } = await import(`ai${major}`);

async function turn(text, hear = () => {}, abortSignal = undefined) {
  const transport = new DefaultChatTransport({ api: `${base}/api/chat` });
  const said = { id: crypto.randomUUID(), role: 'user', parts: [{ type: 'text', text }] };
  const stream = await transport.sendMessages({ trigger: 'submit-message', chatId: chat, messages: [said], abortSignal });
  let last;
  for await (const message of readUIMessageStream({ stream, terminateOnError: true })) {
    last = structuredClone(message);
    hear(last);
  }
  return last;
}

const toolOf = (message) => message.parts.find((part) => part.type === 'tool-bash');

const answer = await turn('hello');
assert.equal(answer.role, 'assistant');
assert.deepEqual(answer.parts.filter((part) => part.type === 'text').map((part) => part.text), ['Here it is.']);

const outputs = [];
const ran = await turn('/bash echo one; sleep 0.7; echo two; exit 3', (message) => {
  const tool = toolOf(message);
  if (tool?.state === 'output-available') outputs.push([tool.preliminary ?? false, tool.output.stdout, tool.output.exitCode]);
});
assert.ok(outputs.some(([preliminary, stdout, code]) => preliminary && stdout === 'one\n' && code === -1), JSON.stringify(outputs));
assert.deepEqual(toolOf(ran).output, { stdout: 'one\ntwo\n', stderr: '', exitCode: 3 });
assert.ok(!toolOf(ran).preliminary);
assert.deepEqual(toolOf(ran).input, { command: 'echo one; sleep 0.7; echo two; exit 3' });

await assert.rejects(turn('fail'), /overloaded/);

const leaving = new AbortController();
await turn('/bash echo begun; exec sleep 100', (message) => {
  if (toolOf(message)?.output?.stdout === 'begun\n') leaving.abort();
}, leaving.signal).catch((error) => assert.match(String(error), /abort/i));
assert.ok(leaving.signal.aborted);

// As `resume` does it: https://ai-sdk.dev/docs/ai-sdk-ui/chatbot-resume-streams
const transport = new DefaultChatTransport({
  api: `${base}/api/chat`,
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `${base}/api/chats/${id}/stream` }),
});
let joined;
for await (const message of readUIMessageStream({ stream: await transport.reconnectToStream({ chatId: chat }) })) {
  joined = structuredClone(message);
  if (toolOf(joined)?.output?.stdout !== 'begun\n') continue;
  const headers = { 'content-type': 'application/json' };
  await fetch(`${base}/api/chats/${chat}/stop`, { method: 'POST', headers, body: JSON.stringify({ turnId: joined.id }) });
}
assert.deepEqual(toolOf(joined).input, { command: 'echo begun; exec sleep 100' });
assert.equal(toolOf(joined).output.exitCode, 130);
assert.equal(await transport.reconnectToStream({ chatId: chat }), null);

console.log('as the AI SDK');
