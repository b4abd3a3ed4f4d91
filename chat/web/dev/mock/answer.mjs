// POST /api/chat: the UI message stream, scripted. An answer continues without its page, and others join it.
import { randomUUID } from "node:crypto";
import { chatOf, sandboxOf, conditions, stopped, tell } from "./state.mjs";
import { ANSWER, PAGE, pause, runCommand } from "./script.mjs";

/** What the running answer of each chat has said, and the pages that watch it. */
const lives = new Map();
const previewPort = Number(process.env.PREVIEW_PORT ?? 3002);

export async function answer(request, response, body, temporary) {
  const chat = temporary ? { id: body.id, messages: body.messages.slice(0, -1) } : chatOf(body.id);
  const sent = body.messages.at(-1);
  const cut = chat.messages.findIndex((message) => message.id === (body.messageId ?? sent.id));
  if (cut >= 0) chat.messages = chat.messages.slice(0, cut);
  if (chat.messages.at(-1)?.id !== sent.id) chat.messages = [...chat.messages, sent];
  chat.running = true;
  chat.updatedAt = new Date().toISOString();
  chat.model = body.model ?? null;

  const message = { id: randomUUID(), role: "assistant", parts: [] };
  chat.messages = [...chat.messages, message];
  stopped.delete(body.id);
  chat.turnId = message.id;
  const live = { said: [], pages: new Set() };
  lives.set(body.id, live);
  join(response, body.id);
  if (!temporary) tell(body.id);
  const stream = {
    message,
    chatId: body.id,
    stopped: () => stopped.has(body.id),
    send: (chunk) => {
      live.said = [...live.said.filter((one) => !one.preliminary || one.toolCallId !== chunk.toolCallId), chunk];
      for (const page of live.pages) page.write(eventOf(chunk));
    },
    cut: () => {
      message.parts.push({ type: "data-failed", data: { text: "The chat server stopped before this answer was complete." } });
      for (const page of live.pages) page.destroy();
    },
  };

  const text = sent.parts.map((part) => part.text ?? "").join("");
  stream.send({ type: "start", messageId: message.id });
  if (!chat.title) {
    chat.title = text.replace(/^\/bash\s+/, "").slice(0, 60);
    stream.send({ type: "data-chat", data: { id: body.id, title: chat.title }, transient: true });
  }
  const direct = /^\s*(?:\/bash\s+|bash:\s*)([\s\S]+)$/.exec(text)?.[1];
  if (direct === undefined) await scripted(stream, text);
  else await oneCommand(stream, direct);
  chat.running = false;
  chat.turnId = null;
  lives.delete(body.id);
  stream.send(stopped.has(body.id) ? { type: "abort", reason: "the turn was ended" } : { type: "finish", finishReason: "stop" });
  for (const page of live.pages) page.end("data: [DONE]\n\n");
  if (!temporary) tell(body.id);
}

/** Streams the running answer of a chat: what was said before, and then what follows. */
export function join(response, chatId) {
  const live = lives.get(chatId);
  if (!live) return response.writeHead(204).end();
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-remcochat-bash-tools-enabled": conditions.toolsDown ? "0" : "1",
    "x-remcochat-bash-tools": "bash,readFile,writeFile,sandboxUrl",
    "cache-control": "no-store",
  });
  for (const chunk of live.said) response.write(eventOf(chunk));
  live.pages.add(response);
  response.on("close", () => live.pages.delete(response));
}

function eventOf(chunk) {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

async function oneCommand(stream, command) {
  stream.send({ type: "start-step" });
  stream.message.parts.push({ type: "step-start" });
  if (command.startsWith("model-error")) return stream.send({ type: "error", errorText: "The model stopped in the middle of its answer." });
  if (command.startsWith("break")) {
    stream.send({ type: "tool-input-available", toolCallId: "c", toolName: "bash", input: { command } });
    await pause(300);
    return stream.cut();
  }
  await bash(stream, command);
  stream.send({ type: "finish-step" });
}

async function bash(stream, command) {
  const toolCallId = randomUUID();
  const part = { type: "tool-bash", toolCallId, state: "input-available", input: { command } };
  stream.message.parts.push(part);
  stream.send({ type: "tool-input-available", toolCallId, toolName: "bash", input: { command } });
  stream.send({ type: "data-sandbox", data: { state: "opening", text: "Opening the sandbox…" }, transient: true });
  await pause(250);
  stream.send({ type: "data-sandbox", data: { state: "ready", text: "" }, transient: true });
  sandboxOf(stream.chatId);
  if (command.startsWith("error")) {
    Object.assign(part, { state: "output-error", errorText: "The sandbox was lost before the command started." });
    return stream.send({ type: "tool-output-error", toolCallId, errorText: part.errorText });
  }
  for await (const output of runCommand(command, stream.stopped)) {
    Object.assign(part, { state: "output-available", output });
    stream.send({ type: "tool-output-available", toolCallId, output, ...(output.exitCode === -1 ? { preliminary: true } : {}) });
  }
}

async function tool(stream, toolName, input, output) {
  const toolCallId = randomUUID();
  stream.message.parts.push({ type: `tool-${toolName}`, toolCallId, state: "output-available", input, output });
  stream.send({ type: "tool-input-start", toolCallId, toolName });
  stream.send({ type: "tool-input-available", toolCallId, toolName, input });
  await pause(400);
  stream.send({ type: "tool-output-available", toolCallId, output });
}

async function say(stream, text, kind = "text") {
  const id = randomUUID();
  const part = { type: kind, text: "" };
  stream.message.parts.push(part);
  stream.send({ type: `${kind}-start`, id });
  for (const delta of text.match(/[\s\S]{1,12}/g) ?? []) {
    if (stream.stopped()) return;
    part.text += delta;
    stream.send({ type: `${kind}-delta`, id, delta });
    await pause(12);
  }
  stream.send({ type: `${kind}-end`, id });
}

async function scripted(stream) {
  stream.send({ type: "start-step" });
  stream.message.parts.push({ type: "step-start" });
  await say(stream, "The user wants to see something. I will look around first.", "reasoning");
  await say(stream, "I will look around first.");
  await bash(stream, "ls -la && cat README.md");
  await tool(stream, "readFile", { path: "src/main.rs", offset: 1, limit: 40 }, { content: 'fn main() {\n    println!("hello");\n}\n', notice: "3 lines" });
  sandboxOf(stream.chatId).files.set("site/index.html", Buffer.from(PAGE));
  await tool(stream, "writeFile", { path: "site/index.html", content: PAGE }, { success: true });
  await tool(stream, "sandboxUrl", { port: 3000 }, { url: `http://127.0.0.1:${previewPort}/` });
  await say(stream, ANSWER);
  stream.send({ type: "finish-step" });
}
