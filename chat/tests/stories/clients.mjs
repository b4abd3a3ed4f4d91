// One major version of the AI SDK as a page uses it, against the chat app: text, a running tool, an error, and a closed page.
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

console.log('as the AI SDK');
