// The mock's state: chats, tickets, files and a sandbox per chat.
import { randomUUID } from "node:crypto";

export const chats = new Map();
export const tickets = new Map();
export const sandboxes = new Map();

export const token = process.env.MOCK_TOKEN ?? "";
/** Changed with POST /mock, to simulate a sandboxd that is down. */
export const conditions = { toolsDown: false };

export function chatOf(id) {
  let chat = chats.get(id);
  if (!chat) {
    const now = new Date().toISOString();
    chat = { id, title: "", createdAt: now, updatedAt: now, model: null, messages: [], running: false };
    chats.set(id, chat);
  }
  return chat;
}

export function sandboxOf(id) {
  let sandbox = sandboxes.get(id);
  if (!sandbox) {
    sandbox = {
      id: randomUUID().slice(0, 21),
      state: "running",
      files: new Map([
        ["README.md", Buffer.from("# A workspace\n\nFiles of this chat.\n")],
        ["src/main.rs", Buffer.from('fn main() {\n    println!("hello");\n}\n')],
        ["src/<img src=x onerror=alert(1)>.txt", Buffer.from("<script>alert(1)</script>\n")],
        ["dot.png", Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64")],
      ]),
      allow: ["registry.npmjs.org"],
      denials: [{ host: "example.org", port: 443, count: 3, lastAt: new Date(Date.now() - 90_000).toISOString(), reason: "hostNotAllowed", entry: "example.org" }],
    };
    sandboxes.set(id, sandbox);
  }
  sandbox.state = "running";
  return sandbox;
}

for (let n = 0; n < 55; n += 1) {
  const chat = chatOf(`old-${n}`);
  chat.title = ["Count the lines in src", "Why does the build fail?", "A tiny web server", "Plot the temperatures", "Rename all the photos by date"][n % 5] + (n > 4 ? ` ${n}` : "");
  chat.updatedAt = new Date(Date.now() - n * 7.3 * 3600_000 - 60_000).toISOString();
  chat.messages = [
    { id: `u${n}`, role: "user", parts: [{ type: "text", text: "/bash wc -l src/*" }] },
    {
      id: `a${n}`,
      role: "assistant",
      parts: [{ type: "step-start" }, { type: "tool-bash", toolCallId: `c${n}`, state: "output-available", input: { command: "wc -l src/*" }, output: { stdout: "  12 src/main.rs\n", stderr: "", exitCode: 0 } }],
    },
  ];
}

/** The chats whose answer is to be stopped. */
export const stopped = new Set();

/** The pages that hear about changes. */
const pages = new Set();

export function changes(response) {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.write('{"chat":null}\n');
  pages.add(response);
  response.on("close", () => pages.delete(response));
}

/** Tells all pages that a chat has changed. */
export function tell(chat) {
  for (const page of pages) page.write(`${JSON.stringify({ chat })}\n`);
}
