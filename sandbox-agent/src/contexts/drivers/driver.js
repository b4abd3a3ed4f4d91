// The interpreter of a JavaScript or TypeScript context. Arguments and protocol are those of driver.py, and the language.
//
// V8's inspector evaluates the code as in the console of a browser: with top-level await, and declarations that later runs
// can repeat. Node's vm interrupts a run that computes. A run that waits continues in the background.

"use strict";

const { Session } = require("node:inspector");
const { closeSync, writeSync } = require("node:fs");
const { createRequire } = require("node:module");
const { Socket } = require("node:net");
const { inspect } = require("node:util");
const vm = require("node:vm");

const [control, maxRecordBytes, language] = process.argv.slice(-3);
// Bytes of a record that are left for its lines.
const FRAMING_BYTES = 1024;

// Names of the formats, by MIME type.
const FORMATS = {
  "text/plain": "text",
  "text/html": "html",
  "text/markdown": "markdown",
  "image/svg+xml": "svg",
  "image/png": "png",
  "application/json": "json",
};
// The method by which an object says how it is displayed, as in Deno's Jupyter kernel.
const DISPLAY = Symbol.for("Jupyter.display");

// The descriptor of this file.
closeSync(Number(process.argv[1].split("/").at(-1)));

const socket = new Socket({ fd: Number(control) });
const session = new Session();
session.connect();
let current = 0;
let interrupt = null;
let captured;

// Writes all bytes before it returns, so that they are in the pipe before the record that follows. A stream of Node would also
// stay busy for ever if an interrupt ended the code while it writes.
const pause = new Int32Array(new SharedArrayBuffer(4));
function writeNow(fd, bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      // The pipe is full, or the code has closed it.
      if (error.code !== "EAGAIN") return;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (chunk, encoding, callback) => {
    const [name, done] = typeof encoding === "function" ? [undefined, encoding] : [encoding, callback];
    writeNow(stream.fd, typeof chunk === "string" ? Buffer.from(chunk, name) : chunk);
    if (done) process.nextTick(done);
    return true;
  };
}

// The tools of the caller. The agent refuses more calls at the same time.
const MAX_CALLS = 16;

class ToolError extends Error {
  constructor(type, message) {
    super(message);
    this.name = "ToolError";
    this.type = type;
  }
}

// Requests that wait for an answer, and calls that wait for their turn.
const requests = new Map();
const turns = [];
let requestCount = 0;
let isRunning = false;

function ask(kind, values) {
  if (!isRunning) return Promise.reject(new Error("tools can be called only during a run"));
  requestCount += 1;
  const id = requestCount;
  return new Promise((resolve, reject) => {
    requests.set(id, { resolve, reject });
    // When the code waits. While it computes, node:vm handles SIGINT, and an interrupt at its end would be lost.
    setImmediate(() => requests.has(id) && send(kind, { id: String(id), ...values }));
  });
}

async function callTool(name, toolArguments = {}) {
  const text = JSON.stringify(toolArguments);
  while (requests.size >= MAX_CALLS) await new Promise((resolve) => turns.push(resolve));
  return ask("call", { tool: String(name), arguments: String(text) });
}

function settle(id, isError, content) {
  const request = requests.get(id);
  requests.delete(id);
  turns.shift()?.();
  const value = JSON.parse(content);
  if (isError) request?.reject(new ToolError(value.type, value.message));
  else request?.resolve(value);
}

// Code that still waits never continues. An error would appear in the output of the next run.
function endRequests() {
  isRunning = false;
  requests.clear();
  for (const turn of turns.splice(0)) turn();
}

function offerTools(names) {
  const own = {
    Error: ToolError,
    call: callTool,
    search: (query, limit = 10) => ask("search", { query: String(query), limit: String(Math.trunc(limit)) }),
  };
  for (const name of names) own[name] ??= (toolArguments) => callTool(name, toolArguments);
  globalThis.tools = Object.freeze(own);
}

// Sends a record of the current run. Values that do not fit are skipped.
function send(kind, values) {
  let left = Number(maxRecordBytes) - FRAMING_BYTES;
  const parts = [];
  for (const [name, value] of Object.entries(values)) {
    let bytes = Buffer.from(value);
    if (bytes.length > left) {
      if (["png", "json", "svg"].includes(name)) continue;
      bytes = Buffer.from(bytes.subarray(0, left).toString().replace(/\ufffd$/, "")).subarray(0, left);
    }
    left -= bytes.length;
    parts.push(Buffer.from(`${name} ${bytes.length}\n`), bytes);
  }
  socket.write(Buffer.concat([Buffer.from(`${current} ${kind} ${parts.length / 2}\n`), ...parts]));
}

function formatsOf(value) {
  const bundle = typeof value?.[DISPLAY] === "function" ? value[DISPLAY]() : {};
  const found = { text: typeof value === "string" ? inspect(value, { maxStringLength: null }) : inspect(value) };
  for (const [mime, shown] of Object.entries(bundle)) {
    const name = FORMATS[mime];
    if (name === "json") found.json = JSON.stringify(shown);
    else if (name === "png" && typeof shown === "string") found.png = Buffer.from(shown, "base64");
    else if (name && (typeof shown === "string" || Buffer.isBuffer(shown))) found[name] = shown;
  }
  return found;
}

globalThis.display = function display(...values) {
  for (const value of values) send("display", formatsOf(value));
};
for (const [mime, name] of Object.entries(FORMATS)) {
  display[name] = (shown) => display({ [DISPLAY]: () => ({ [mime]: shown }), [inspect.custom]: () => `<${name}>` });
}

// Modules are resolved from the directory of the context.
const requireThere = createRequire(`${process.cwd()}/`);
globalThis.require = requireThere;
globalThis.__sandboxImport__ = (name, options) => import(resolved(name), options);
function resolved(name) {
  if (!/^(\.{0,2}\/|[^:]*$)/.test(name)) return name;
  const path = requireThere.resolve(name);
  return require("node:path").isAbsolute(path) ? require("node:url").pathToFileURL(path).href : path;
}

// The inspector's scripts have no `import`, so it is replaced by a function that has.
function withImports(code) {
  const names = (list) => list.replace(/\bas\b/g, ":").replace(/\b(\w+)\s*:\s*/g, "$1: ");
  return code
    .replace(/^import\s+([^'"()]+?)\s+from\s*(['"][^'"\n]+['"]);?/gm, (_, clause, name) => {
      const parts = /^(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?$/.exec(clause.trim());
      if (!parts) return _;
      const [, first, all, some] = parts;
      const bound = [first && `default: ${first}`, some && names(some)].filter(Boolean).join(", ");
      const loaded = `await __sandboxImport__(${name})`;
      return all ? `const ${all} = ${loaded};${first ? ` const ${first} = ${all}.default;` : ""}` : `const {${bound}} = ${loaded};`;
    })
    .replace(/^import\s*(['"][^'"\n]+['"]);?/gm, "await __sandboxImport__($1);")
    .replace(/(?<![\w$.'"`#])import\s*\(/g, "__sandboxImport__(");
}

// Returns the value that the inspector refers to.
function valueOf(remote) {
  if (!remote.objectId) {
    return remote.unserializableValue ? vm.runInThisContext(remote.unserializableValue) : remote.value;
  }
  const { objectId } = remote;
  const functionDeclaration = "function (value) { globalThis.__sandboxCapture__(value) }";
  globalThis.__sandboxCapture__ = (value) => { captured = value; };
  session.post("Runtime.callFunctionOn", { objectId, functionDeclaration, arguments: [{ objectId }] });
  delete globalThis.__sandboxCapture__;
  const value = captured;
  captured = undefined;
  return value;
}

const caller = vm.createContext({ evaluate: null });
const call = new vm.Script("evaluate()");

// Evaluates the code. Rejects with what it throws, and with `Interrupted`.
function evaluate(code) {
  return new Promise((resolve, reject) => {
    interrupt = () => reject(new Interrupted());
    const expression = `${code}\n//# sourceURL=run-${current}`;
    const parameters = { expression, replMode: true, awaitPromise: true, objectGroup: "run" };
    caller.evaluate = () => session.post("Runtime.evaluate", parameters, (failed, reply) => {
      if (failed) return reject(failed);
      const thrown = reply.exceptionDetails;
      if (!thrown) return resolve(valueOf(reply.result));
      reject(new Thrown(valueOf(thrown.exception), thrown));
    });
    try {
      call.runInContext(caller, { breakOnSigint: true });
    } catch {
      interrupt();
    }
  });
}

class Interrupted {
  values() {
    return { name: "Interrupted", value: "the run was interrupted", traceback: "" };
  }
}

class Thrown {
  constructor(error, details) {
    Object.assign(this, { error, details });
  }

  values() {
    const { error, details } = this;
    if (!(error instanceof Error)) {
      const value = inspect(error);
      return { name: "Error", value, traceback: `Uncaught ${value}` };
    }
    const isSyntax = error instanceof SyntaxError && details.scriptId;
    const at = isSyntax ? `\n    at run-${current}:${details.lineNumber + 1}:${details.columnNumber + 1}` : "";
    const [head, ...frames] = String(inspect(error)).split("\n");
    const end = frames.findIndex((frame) => frame.includes("(node:inspector"));
    const traceback = [head + at, ...(end < 0 ? frames : frames.slice(0, end))].join("\n");
    return { name: String(error.name), value: String(error.message), traceback };
  }
}

async function perform(code) {
  process.removeListener("SIGINT", onInterrupt);
  process.on("SIGINT", onInterrupt);
  try {
    const { stripTypeScriptTypes } = require("node:module");
    if (language === "typescript" && !stripTypeScriptTypes) throw new Error("TypeScript needs Node 22.13 or later");
    const value = await evaluate(withImports(language === "typescript" ? stripTypeScriptTypes(code) : code));
    if (value !== undefined) send("result", formatsOf(value));
  } catch (error) {
    send("error", (typeof error?.values === "function" ? error : new Thrown(error, {})).values());
  }
  interrupt = null;
  endRequests();
  session.post("Runtime.releaseObjectGroup", { objectGroup: "run" });
  send("done", {});
}

function runCode(number, code) {
  current = number;
  isRunning = true;
  return perform(code);
}

function onInterrupt() {
  interrupt?.();
}

// What code of an earlier run throws must not end the context.
process.on("uncaughtException", (error) => console.error("Uncaught", error));
process.on("SIGINT", onInterrupt);

let waiting = Buffer.alloc(0);
let queue = Promise.resolve();
socket.on("data", (received) => {
  waiting = Buffer.concat([waiting, received]);
  for (let end = waiting.indexOf(0); end >= 0; end = waiting.indexOf(0)) {
    const text = waiting.subarray(0, end).toString();
    waiting = waiting.subarray(end + 1);
    const line = text.indexOf("\n");
    const [kind, id] = text.slice(0, line).split(" ");
    const content = text.slice(line + 1);
    if (kind === "tools") offerTools(JSON.parse(content));
    else if (id) settle(Number(id), kind === "error", content);
    else queue = queue.then(() => runCode(Number(kind), content));
  }
});
socket.on("close", () => process.exit());
socket.on("error", () => process.exit());
