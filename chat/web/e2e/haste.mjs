// Quick repeated input, and two windows with the same chat:
//   node e2e/haste.mjs <server> <folder for screenshots>
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { at, openPage, press, say, textOf, until } from "../dev/browser.mjs";
import { check, draft, exit, last, pause, stories, texts } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const { step, finish, shot } = await stories(pictures);
const shows = (page, wanted, timeoutMs = 30_000) => until(`"${wanted}"`, async () => (await last(page, "tool:stdout"))?.includes(wanted), timeoutMs);
const runs = async (page, text, wanted) => {
  await say(page, text);
  await shows(page, wanted);
};
const idle = (page) => until("an idle composer", () => page.$(at("composer:send")));
const chatOf = (page) => new URL(page.url()).pathname.split("/").at(-1);
const upload = (page, name) => page.evaluate(async ([id, path]) => {
  const response = await fetch(`/api/chats/${id}/files/content?path=${path}`, { method: "PUT", body: "x" });
  if (!response.ok) throw new Error(await response.text());
}, [chatOf(page), name]);

await step("an example that is clicked twice runs once", {}, server, async (page) => {
  await until("the examples", () => page.$(".examples button"));
  await page.$eval(".examples button", (button) => { button.click(); button.click(); });
  await exit(page);
  await pause(500);
  check((await texts(page, "message:user")).length === 1, "one message");
  check(!(await page.$(at("chat:failure"))), "no failure");
  await page.reload();
  await exit(page);
  check((await texts(page, "message:user")).length === 1, "one message is kept");
});

await step("pressing Enter twice sends once", {}, server, async (page) => {
  await page.waitForSelector(at("composer:input"));
  await page.type(at("composer:input"), "/bash echo once");
  await page.$eval(at("composer:input"), (field) => {
    for (let time = 0; time < 2; time += 1) field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  });
  await exit(page);
  check((await texts(page, "message:user")).length === 1 && !(await page.$(at("chat:failure"))), "one message");
  check((await draft(page)) === "", "an empty composer");
});

await step("two windows show the same chat, and neither loses a text", {}, server, async (page) => {
  await runs(page, "/bash echo first", "first");
  await idle(page);
  const troubles = [];
  const second = await openPage(page.browser(), { troubles });
  await second.goto(page.url());
  await shows(second, "first");
  await say(page, "/bash until [[ -e go ]]; do sleep 0.1; done; echo from the one");
  await until("it runs", () => page.$(at("tool:running")));
  const begun = Date.now();
  await until("the second window joins by itself", () => second.$(at("tool:running")), 5000);
  console.log(`      a message is shown by another window ${Date.now() - begun} ms later`);
  await say(second, "/bash echo from the other");
  await until("its message waits", () => second.$(at("queued")));
  check((await draft(second)) === "", "it is not in the composer too");
  await upload(page, "go");
  await shows(second, "from the one");
  await shows(second, "from the other");
  await idle(second);
  await shows(page, "from the other", 5000);
  await idle(page);
  check((await texts(page, "message:user")).length === 3 && (await texts(second, "message:user")).length === 3, "the same three messages");
  const row = `${at("chat:row")}[data-chat-id="${chatOf(page)}"]`;
  await press(page, `${row} .menu .icon-button`);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`${row} input`);
  await page.keyboard.type("A new name");
  await page.keyboard.press("Enter");
  await until("the new name in the second window", async () => (await second.$eval(row, (one) => one.textContent)).includes("A new name"), 5000);
  await press(second, `${row} .menu .icon-button`);
  await second.keyboard.press("ArrowDown");
  await second.keyboard.press("Enter");
  await press(second, at("confirm:yes"));
  await until("the first window says that it is gone", async () => !(await page.$(at("message:user"))) && (await page.$(".empty h2")), 5000);
  check(troubles.length === 0, troubles.join("; "));
  await second.browserContext().close();
});

await step("messages wait for the answer, over a reload, and are held when it is stopped", {}, server, async (page) => {
  const waiting = async () => (await texts(page, "queued")).join("|");
  await runs(page, "/bash echo begun; until [[ -e go ]]; do sleep 0.1; done", "begun");
  await say(page, "/bash echo second; until [[ -e more ]]; do sleep 0.1; done");
  await say(page, "/bash echo never");
  await say(page, "/bash echo third");
  await until("three of them", async () => (await page.$$(at("queued"))).length === 3);
  await press(page, `${at("queued")}:nth-child(2) [aria-label="Remove this waiting message"]`);
  await until("two of them", async () => (await page.$$(at("queued"))).length === 2);
  await shot(page, "queued");
  await page.reload();
  await until("the same two", async () => /second.*third/.test(await waiting()) && !(await waiting()).includes("never"));
  await upload(page, "go");
  await shows(page, "second");
  check(!(await waiting()).includes("second") && (await waiting()).includes("third"), await waiting());
  await press(page, at("composer:stop"));
  // What is typed after the stop is sent, and what waited before is held.
  await say(page, "/bash echo fourth");
  await shows(page, "fourth");
  await idle(page);
  check((await waiting()).includes("third") && (await texts(page, "message:user")).length === 3, await waiting());
  await press(page, at("queued:send"));
  await shows(page, "third");
  check((await waiting()) === "" && (await draft(page)) === "", "nothing waits");
});

await step("a reload in the middle of an answer joins it, and misses nothing", {}, server, async (page) => {
  await runs(page, "/bash echo begun; until [[ -e go ]]; do sleep 0.1; done; echo more; sleep 100; echo never", "begun");
  await page.reload();
  await until("its output so far", async () => (await page.$(at("tool:stdout"))) && (await textOf(page, "tool:stdout")).includes("begun"));
  await upload(page, "go");
  await until("more of it", async () => (await textOf(page, "tool:stdout")).includes("more"));
  check((await texts(page, "message:user")).length === 1 && (await texts(page, "message:assistant")).length === 1, "one question, one answer");
  await press(page, at("composer:stop"));
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("more") && !(await textOf(page, "tool:stdout")).includes("never"), await textOf(page, "tool:stdout"));
  await until("it may send", async () => (await page.$(at("composer:send"))) && !(await page.$(at("tool:running"))));
  await runs(page, "/bash echo after", "after");
});

await step("a tab that is closed ends nothing, and another sees the end", {}, server, async (page, browser) => {
  const second = await openPage(browser);
  await second.goto(server);
  await runs(second, "/bash echo begun; until [[ -e go ]]; do sleep 0.1; done; echo ended", "begun");
  const address = second.url();
  await second.browserContext().close();
  await page.goto(address);
  await shows(page, "begun");
  check(await page.$(at("tool:running")), "it still runs");
  await upload(page, "go");
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("ended"), await textOf(page, "tool:stdout"));
  await idle(page);
});

await step("a late response does not replace the chat in view", {}, server, async (page) => {
  await runs(page, "/bash echo slow one", "slow one");
  const slow = chatOf(page);
  await press(page, at("chat:new"));
  await until("the empty page", () => page.$(".examples"));
  await runs(page, "/bash echo quick one", "quick one");
  const quick = chatOf(page);
  await page.setRequestInterception(true);
  page.on("request", async (request) => {
    if (request.url().endsWith(`/api/chats/${slow}`)) await pause(1500);
    await request.continue();
  });
  await page.goto(`${server}/c/${quick}`);
  await shows(page, "quick one");
  const row = (id) => press(page, `${at("chat:row")}[data-chat-id="${id}"] a`);
  await row(slow);
  await row(quick);
  await row(slow);
  await row(quick);
  await pause(2500);
  await shows(page, "quick one");
  check(chatOf(page) === quick && (await texts(page, "message:user")).length === 1, "the quick one");
  await row(slow);
  await shows(page, "slow one");
});

await step("an upload of a hundred megabytes shows its progress and can be cancelled", {}, server, async (page) => {
  const folder = await mkdtemp(join(tmpdir(), "e2e"));
  for (const [name, size] of [["large.bin", 100 * 1024 * 1024], ["larger.bin", 100 * 1024 * 1024 + 1]]) {
    const file = await open(join(folder, name), "w");
    await file.truncate(size);
    await file.close();
  }
  await runs(page, "/bash echo ready", "ready");
  await press(page, at("panel:files"));
  const input = await until("the file input", () => page.$(at("files:upload")));
  const devtools = await page.createCDPSession();
  await devtools.send("Network.enable");
  const speed = (bytes) => devtools.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  await speed(20e6);
  await input.uploadFile(join(folder, "large.bin"));
  const share = () => page.$eval(".uploads progress", (bar) => bar.value / bar.max).catch(() => null);
  await until("a part of it", async () => (await share()) > 0.05 && (await share()) < 0.9, 30_000);
  await shot(page, "upload-under-way");
  await press(page, "[aria-label='Cancel upload of large.bin']");
  await until("it is gone from the list", async () => !(await page.$(".uploads li")));
  await pause(500);
  check(!(await page.$(`${at("file:row")}[data-path="large.bin"]`)), "no half of it");
  await speed(-1);
  const begun = Date.now();
  await input.uploadFile(join(folder, "large.bin"));
  await until("all of it", () => page.$(`${at("file:row")}[data-path="large.bin"]`), 60_000);
  console.log(`      100 MiB in ${Date.now() - begun} ms`);
  await input.uploadFile(join(folder, "larger.bin"));
  await until("a file that is too large is rejected", async () => (await page.$(".upload-error")) && (await page.$eval(".upload-error", (one) => one.textContent)).includes("100 MiB"));
  await press(page, "[aria-label='Dismiss']");
  // The file waits behind a slow one, and is removed from the disk before its turn.
  await speed(20e6);
  await writeFile(join(folder, "gone.txt"), "x".repeat(1000));
  await input.uploadFile(join(folder, "large.bin"), join(folder, "gone.txt"));
  await until("both of them", async () => (await page.$$(".uploads li")).length === 2);
  await rm(join(folder, "gone.txt"));
  await speed(-1);
  await until("the error of the unreadable file", async () => (await page.$(".upload-error")) && (await page.$eval(".upload-error", (one) => one.textContent)).includes("could not be read"), 30_000);
  check(!(await page.$(at("banner:error"))), "no server error is shown");
  await runs(page, "/bash stat -c %s large.bin; ls -A", "104857600");
  check(!(await last(page, "tool:stdout")).includes("larger"), await last(page, "tool:stdout"));
});

await step("a long chat stays responsive", {}, server, async (page) => {
  await runs(page, "/bash echo ready", "ready");
  const chat = chatOf(page);
  const once = (at) => page.evaluate(async ([id, text, number]) => {
    const message = { id: `long${number}`, role: "user", parts: [{ type: "text", text }] };
    const response = await fetch("/api/chat", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id, messages: [message], trigger: "submit-message" }) });
    await response.text();
    return response.status;
  }, [chat, "/bash seq 3000", at]);
  for (let number = 0; number < 60; number += 1) check((await once(number)) === 200, "it runs");
  await page.reload();
  await until("all of it", async () => (await texts(page, "message:user")).length === 61, 30_000);
  await page.focus(at("composer:input"));
  const waits = [];
  for (let key = 0; key < 10; key += 1) {
    const sentAt = Date.now();
    await page.keyboard.type("x");
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    waits.push(Date.now() - sentAt);
  }
  const devtools = await page.createCDPSession();
  await devtools.send("HeapProfiler.collectGarbage");
  const { JSHeapUsedSize, Nodes } = await page.metrics();
  console.log(`      61 commands: ${(JSHeapUsedSize / 1e6).toFixed(1)} MB, ${Nodes} nodes, slowest key ${Math.max(...waits)} ms`);
  check(Math.max(...waits) < 300, `a key waited ${Math.max(...waits)} ms`);
  check(JSHeapUsedSize < 60e6, `${JSHeapUsedSize} bytes`);
});

await finish();
