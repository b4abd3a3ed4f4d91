// Tests the built page in headless Chromium, with the mock and the server's policy:
//   npm run build && npm run smoke
// A policy violation or an error on the console fails the run.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { at, audit, openPage, press, say, startBrowser, startMock, textOf, until } from "./browser.mjs";

const mock = await startMock({ PORT: "3111", PREVIEW_PORT: "3112" });
const bare = await startMock({ PORT: "3113", PREVIEW_PORT: "3114", MOCK_MODELS: "0" });
const lan = await startMock({ PORT: "3115", PREVIEW_PORT: "3116", MOCK_TOKEN: "right-token" });
const browser = await startBrowser();
const FLOOD_SECONDS = Number(process.env.FLOOD_SECONDS ?? 10);
let failed = 0;
let passed = 0;

async function step(name, options, url, run) {
  const troubles = [];
  const page = await openPage(browser, { ...options, troubles });
  try {
    await page.goto(url);
    await run(page);
    const violations = await page.evaluate(() => window.__violations);
    const xss = await page.evaluate(() => window.__xss);
    if (violations.length) throw new Error(`refused by the policy: ${violations.join("; ")}`);
    if (xss !== undefined) throw new Error("a script from the output ran");
    if (troubles.length) throw new Error(troubles.join("; "));
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (thrown) {
    failed += 1;
    console.log(`FAIL  ${name}\n      ${thrown.message}`);
  } finally {
    await page.browserContext().close();
  }
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

async function setConditions(url, change) {
  await fetch(`${url}/mock`, { method: "POST", body: JSON.stringify(change) });
}

await step("the page's first script is small", {}, bare.url, async (page) => {
  const scripts = await page.$$eval("script[src]", (all) => all.map((one) => one.src));
  let bytes = 0;
  for (const script of scripts) bytes += gzipSync(Buffer.from(await (await fetch(script)).arrayBuffer())).length;
  console.log(`      ${(bytes / 1000).toFixed(0)} kB gzip`);
  check(scripts.length > 0 && bytes < 250_000, `${bytes} bytes`);
});

await step("a command streams before it ends, and shows its exit code", {}, bare.url, async (page) => {
  await say(page, "/bash x");
  await until("first output", () => page.$(at("tool:stdout")));
  check(await page.$(at("tool:running")), "it should still run when the first output is there");
  await until("exit", () => page.$(at("tool:exit")));
  check((await textOf(page, "tool:exit")) === "exit 0", "exit 0");
  check((await textOf(page, "tool:stdout")).includes("line 3 of the output"), "all of the output");
  check(new URL(page.url()).pathname.startsWith("/c/"), "the chat has its address");
});

await step("a reload keeps the chat", {}, bare.url, async (page) => {
  await say(page, "/bash fail");
  await until("exit", () => page.$(at("tool:exit")));
  await page.reload();
  await until("the card again", () => page.$(at("tool:exit")));
  check((await textOf(page, "tool:exit")) === "exit 3", "exit 3");
});

await step("stop ends a command and shows the stored output", {}, bare.url, async (page) => {
  await say(page, "/bash flood");
  await until("truncation", () => page.$(at("tool:truncated")));
  const started = Date.now();
  await press(page, at("composer:stop"));
  await until("send again", () => page.$(at("composer:send")));
  await until("the kept end", async () => (await page.$(at("tool:exit"))) && (await textOf(page, "tool:exit")) === "exit 137");
  console.log(`      stopped and settled in ${Date.now() - started} ms`);
});

await step(`1 MB/s for ${FLOOD_SECONDS} s leaves the page responsive`, {}, bare.url, async (page) => {
  await page.evaluate(() => {
    window.__long = [];
    new PerformanceObserver((list) => window.__long.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
  });
  await say(page, "/bash flood");
  await until("output", () => page.$(at("tool:stdout")));
  const waits = [];
  for (let second = 0; second < FLOOD_SECONDS; second += 1) {
    const before = Date.now();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    waits.push(Date.now() - before);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  await press(page, at("composer:stop"));
  const long = await page.evaluate(() => window.__long);
  console.log(`      long tasks: ${long.length}, longest ${Math.round(Math.max(0, ...long))} ms, in all ${Math.round(long.reduce((a, b) => a + b, 0))} ms; slowest frame ${Math.max(...waits)} ms`);
  check(long.reduce((a, b) => a + b, 0) < FLOOD_SECONDS * 1000 * 0.2, "long tasks take more than a fifth of the time");
});

await step("output with HTML is shown as text", {}, bare.url, async (page) => {
  await say(page, "/bash xss");
  await until("exit", () => page.$(at("tool:exit")));
  check((await textOf(page, "tool:stdout")).includes("<script>"), "shown as text");
  check((await page.$$(`${at("tool:stdout")} a`)).length === 0, "no link to javascript:");
});

await step("a model's answer shows cards, markdown and a preview", {}, mock.url, async (page) => {
  await say(page, "Build a page");
  await until("preview", () => page.$(at("preview:frame")));
  const frame = await until("frame", () => page.frames().find((one) => one.url().includes("3112")));
  check((await until("frame text", () => frame.$eval("p", (p) => p.textContent))) === "walled off", "the frame cannot read the page");
  await until("the end", () => page.$(at("composer:send")));
  check(await page.$(at("tool:readFile")) && await page.$(at("tool:writeFile")), "file cards");
  await until("code in colour", () => page.$(".code-block .hljs-keyword"));
  check((await page.$$(".markdown img, .markdown script")).length === 0, "no image, no script");
  check((await page.$$eval(".markdown a", (links) => links.every((link) => /^https?:/.test(link.href) && link.rel === "noopener noreferrer" && link.target === "_blank"))), "only safe links");
});

await step("a message is edited, and answered again", {}, bare.url, async (page) => {
  const count = (id) => page.$$(at(id)).then((found) => found.length);
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
  await say(page, "/bash fail");
  await until("second exit", async () => (await count("tool:exit")) === 2);
  await page.hover(at("message:user"));
  await press(page, "[aria-label='Edit and send again']");
  await page.$eval(".edit textarea", (field) => field.select());
  await page.keyboard.type("/bash kill");
  await page.keyboard.press("Enter");
  await until("the one new end", async () => (await count("tool:exit")) === 1 && (await textOf(page, "tool:exit")) === "exit 137");
  await press(page, "[aria-label='Run the command again']");
  await until("running again", () => page.$(at("tool:running")));
  await until("ended again", () => page.$(at("tool:exit")));
  check((await count("message:user")) === 1 && (await count("message:assistant")) === 1, "one question, one answer");
  await page.reload();
  await until("kept", () => page.$(at("tool:exit")));
  check((await count("message:user")) === 1 && (await count("message:assistant")) === 1, "the server keeps the same");
});

await step("a second window joins an answer, and a chat continues in the background", {}, bare.url, async (page) => {
  await say(page, "/bash flood");
  await until("output", () => page.$(at("tool:truncated")));
  const address = page.url();
  const second = await openPage(browser);
  await second.goto(address);
  await until("it joins", () => second.$(at("tool:running")));
  await press(page, at("chat:new"));
  await until("the empty page", () => page.$(".examples"));
  check(await page.$(`${at("chat:row")} .row-dot`), "the list shows that it runs");
  await page.goBack();
  await until("back in the chat", () => page.$(at("composer:stop")));
  await press(page, at("composer:stop"));
  await until("the end in the second window", async () => (await second.$(at("tool:exit"))) !== null);
  await second.browserContext().close();
});

await step("a rejected message returns to the composer", {}, bare.url, async (page) => {
  await say(page, "what is this?");
  await until("failure", () => page.$(at("chat:failure")));
  check((await page.$eval(at("composer:input"), (field) => field.value)) === "what is this?", "the text is kept");
});

await step("an answer that the server has lost says so", {}, bare.url, async (page) => {
  await say(page, "/bash break");
  await until("the reason", () => page.$(at("message:failed")));
  await until("that it can be repeated", () => page.$(at("chat:again")));
});

await step("unavailable tools are reported, and recover by themselves", {}, bare.url, async (page) => {
  await setConditions(bare.url, { toolsDown: true });
  await page.reload();
  await until("banner", () => page.$(at("banner:error")));
  await setConditions(bare.url, { toolsDown: false });
  await until("no banner", async () => !(await page.$(at("banner:error"))));
});

await step("files are listed, opened and uploaded", {}, bare.url, async (page) => {
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
  await press(page, at("panel:files"));
  await until("rows", () => page.$(at("file:row")));
  await press(page, `${at("file:row")}[data-path="README.md"] .file-open`);
  await until("the text", () => page.$(".viewer-text"));
  await press(page, "[aria-label='Back to the list']");
  await press(page, `${at("file:row")}[data-path="dot.png"] .file-open`);
  await until("the picture", () => page.$eval(".viewer-image img", (image) => image.naturalWidth > 0).catch(() => false));
  await press(page, "[aria-label='Back to the list']");
  const path = join(await mkdtemp(join(tmpdir(), "smoke-")), "up.txt");
  await writeFile(path, "uploaded");
  await (await page.$(at("files:upload"))).uploadFile(path);
  await until("the new row", () => page.$(`${at("file:row")}[data-path="up.txt"]`));
});

await step("the sandbox is shown, and a denied host can be allowed", {}, bare.url, async (page) => {
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
  await press(page, at("panel:session"));
  await until("running", () => page.$(`${at("session:state")}[data-state=running]`));
  await press(page, at("network:allow"));
  await until("allowed", async () => !(await page.$(at("network:allow"))));
  await press(page, at("session:park"));
  await until("parked", () => page.$(`${at("session:state")}[data-state=parked]`));
});

await step("a wrong token is rejected, the correct one is accepted", {}, lan.url, async (page) => {
  await press(page, at("lan-admin:open"));
  await page.type(at("bash-tools:lan-admin-token"), "wrong");
  await press(page, at("lan-admin:save"));
  await until("denied", async () => (await textOf(page, "lan-admin:status")).includes("token_mismatch"));
  await page.$eval(at("bash-tools:lan-admin-token"), (field) => field.select());
  await page.type(at("bash-tools:lan-admin-token"), "right-token");
  await press(page, at("lan-admin:save"));
  await until("the composer", () => page.$(at("composer:input")));
  check((await page.evaluate(() => sessionStorage.getItem("remcochat:lanAdminToken:session"))) === "right-token", "kept for the tab");
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
});

await step("a token in the URL is stored and removed", {}, `${lan.url}/#token=right-token`, async (page) => {
  await until("the composer", () => page.$(at("composer:input")));
  check(!page.url().includes("token"), "the address is clean");
});

await step("plain http on a LAN, which is not a secure context, works", {}, bare.url.replace("127.0.0.1", "chat.lan"), async (page) => {
  check(!(await page.evaluate(() => window.isSecureContext)), "this should not be a secure context");
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
  await press(page, "[aria-label='Copy stdout']");
  await until("copied", () => page.$("[aria-label='Copied']"));
  await press(page, at("tool:full"));
  await press(page, "dialog [aria-label='Copy command']");
  await until("copied in a dialog", () => page.$("dialog [aria-label='Copied']"));
});

await step("a temporary chat works and is not stored", {}, bare.url, async (page) => {
  await press(page, `${at("chat:temporary")}:not(:disabled)`);
  await until("its title", async () => (await page.$eval(".top-title", (title) => title.textContent)).includes("Temporary"));
  await say(page, "/bash x");
  await until("exit", () => page.$(at("tool:exit")));
  check(new URL(page.url()).pathname === "/", "no address of its own");
});

await step("chats are renamed and deleted", {}, bare.url, async (page) => {
  const row = `${at("chat:row")}[data-chat-id=old-3]`;
  await until("row", () => page.$(row));
  await press(page, `${row} .menu .icon-button`);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`${row} input`);
  await page.keyboard.type("Renamed");
  await page.keyboard.press("Enter");
  await until("new title", async () => (await page.$eval(row, (one) => one.textContent)).includes("Renamed"));
  await press(page, `${row} .menu .icon-button`);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await press(page, at("confirm:yes"));
  await until("gone", async () => !(await page.$(row)));
});

await step("the page works at phone width", { width: 360, height: 740, phone: true }, mock.url, async (page) => {
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth && [...document.querySelectorAll(".transcript, .empty")].every((box) => box.scrollWidth <= box.clientWidth));
  await page.waitForSelector(at("composer:input"));
  check(await fits(), "the empty page fits");
  await say(page, "Build a page");
  await until("preview", () => page.$(at("preview:frame")));
  await until("the end", () => page.$(at("composer:send")));
  check(await fits(), "the answer fits");
  await press(page, at("panel:files"));
  await until("rows in a sheet", () => page.$(`dialog[open] ${at("file:row")}`));
  await page.keyboard.press("Escape");
  await until("closed", async () => !(await page.$("dialog[open]")));
  await press(page, at("chats:open"));
  await press(page, `dialog[open] ${at("chat:row")} a`);
  await until("drawer closed", async () => !(await page.$("dialog[open]")));
});

await step("the page works with the keyboard only", {}, mock.url, async (page) => {
  await page.waitForSelector(at("composer:input"));
  await page.keyboard.down("Control");
  await page.keyboard.press("k");
  await page.keyboard.up("Control");
  await page.waitForSelector(at("palette"));
  await page.keyboard.type("fail");
  await page.keyboard.press("Enter");
  await until("the chat", () => new URL(page.url()).pathname.startsWith("/c/old-"));
  await until("focus in the composer", () => page.evaluate(() => document.activeElement?.getAttribute("data-testid") === "composer:input"));
  const top = () => page.$eval(".transcript", (box) => box.scrollTop);
  const before = await top();
  await page.keyboard.press("PageUp");
  check(before === 0 || (await until("it scrolls", async () => (await top()) < before)), "the messages are scrolled");
  await page.keyboard.press("PageDown");
  await page.keyboard.press("ArrowUp");
  check((await page.$eval(at("composer:input"), (field) => field.value)) === "/bash wc -l src/*", "the last message comes back");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.type("/bash flood");
  await page.keyboard.press("Enter");
  await until("running", () => page.$(at("composer:stop")));
  await until("output", () => page.$(at("tool:truncated")));
  await page.keyboard.press("Escape");
  await until("stopped", () => page.$(at("composer:send")));
});

for (const dark of [false, true]) {
  await step(`an accessibility audit finds nothing, ${dark ? "dark" : "light"}`, { dark }, mock.url, async (page) => {
    const listen = async (where) => {
      const found = await audit(page);
      check(found.length === 0, `${where}: ${found.join("; ")}`);
    };
    await until("chats", () => page.$(at("chat:row")));
    await listen("empty page");
    await say(page, "Build a page");
    await until("the end", async () => (await page.$(at("preview:frame"))) && (await page.$(at("composer:send"))));
    await say(page, "/bash fail err");
    await until("running", () => page.$(at("tool:running")));
    await listen("running command");
    await until("exit", async () => (await page.$$(at("tool:exit"))).length === 2);
    await press(page, at("panel:files"));
    await until("rows", () => page.$(at("file:row")));
    await listen("files");
    await press(page, at("panel:session"));
    await until("sandbox", () => page.$(at("session:state")));
    await listen("sandbox");
    await press(page, at("tool:full"));
    await listen("full output");
    await page.keyboard.press("Escape");
    await press(page, at("palette:open"));
    await listen("palette");
  });
}

await step("the token dialog has the focus in its field", {}, lan.url, async (page) => {
  await press(page, at("lan-admin:open"));
  check(await page.evaluate(() => document.activeElement?.getAttribute("data-testid") === "bash-tools:lan-admin-token"), "focus");
  const found = await audit(page);
  check(found.length === 0, found.join("; "));
});

await browser.close();
for (const server of [mock, bare, lan]) server.stop();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
