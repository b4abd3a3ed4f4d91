// A command that writes a megabyte per second for a minute: the page must stay responsive and get only a few updates.
//   node e2e/flood.mjs <server> <folder for screenshots>
import { at, say, textOf, until } from "../dev/browser.mjs";
import { check, exit, pause, stories } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const SECONDS = 60;
const BYTES = SECONDS * 1_000_000;
/** Numbered lines of 100 bytes with colours, 1000 lines every tenth of a second, regardless of the machine's speed. */
const FLOOD = `python3 -c '
import sys, time
begun = time.monotonic()
for tenth in range(${SECONDS * 10}):
    for line in range(1000):
        sys.stdout.write("%08d \\033[32mok\\033[0m %s\\n" % (tenth * 1000 + line, "lorem ipsum " * 6 + "dolor."))
    sys.stdout.flush()
    time.sleep(max(0, begun + (tenth + 1) / 10 - time.monotonic()))
'`;

/** Runs before the page's scripts: records long tasks, slow keys, and each update on the stream. */
function listen() {
  window.__long = [];
  window.__keys = [];
  window.__updates = [];
  const observe = (type, into, more) => new PerformanceObserver((list) => into.push(...list.getEntries().filter((one) => type !== "event" || one.name === "keydown").map((one) => one.duration))).observe({ type, ...more });
  observe("longtask", window.__long);
  observe("event", window.__keys, { durationThreshold: 16 });
  const fetchIt = window.fetch;
  window.fetch = async (url, init) => {
    const response = await fetchIt(url, init);
    if (url !== "/api/chat") return response;
    const text = new TextDecoder();
    let rest = "";
    const count = new TransformStream({
      transform(bytes, out) {
        const events = (rest + text.decode(bytes, { stream: true })).split("\n\n");
        rest = events.pop();
        for (const event of events) if (event.includes('"type":"tool-output-available"')) window.__updates.push(performance.now());
        out.enqueue(bytes);
      },
    });
    return new Response(response.body.pipeThrough(count), response);
  };
}

const { step, finish } = await stories(pictures);

await step("the page stays responsive during a minute of output", { before: listen }, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  await page.evaluate(() => { for (const end = performance.now() + 120; performance.now() < end;); });
  await until("the observer reports a long task", () => page.evaluate(() => window.__long.length > 0));
  const heap = async () => {
    const devtools = await page.createCDPSession();
    await devtools.send("HeapProfiler.collectGarbage");
    await devtools.detach();
    return (await page.metrics()).JSHeapUsedSize / 1e6;
  };
  // The composer accepts a long text at once; the measurement covers the keys after it.
  await page.$eval(at("composer:input"), (field, text) => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, `/bash ${FLOOD}`);
  await page.focus(at("composer:input"));
  await page.evaluate(() => { window.__long.length = window.__keys.length = window.__updates.length = 0; });
  const begun = Date.now();
  await page.keyboard.press("Enter");
  await until("output that was cut", () => page.$(at("tool:truncated")), 30_000);
  await pause(5000);
  const before = await heap();
  const waits = [];
  while (Date.now() - begun < (SECONDS - 5) * 1000) {
    const sentAt = Date.now();
    await page.keyboard.type("x");
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    waits.push(Date.now() - sentAt);
    await pause(700);
  }
  const after = await heap();
  check((await page.$eval(at("composer:input"), (field) => field.value)) === "x".repeat(waits.length), "every key arrived");
  await until("its end", async () => (await page.$$(at("tool:exit"))).length === 2, 40_000);
  const seconds = (Date.now() - begun) / 1000;
  const { long, keys, updates } = await page.evaluate(() => ({ long: window.__long, keys: window.__keys, updates: window.__updates }));
  const cut = Number((await textOf(page, "tool:truncated")).replaceAll(",", "").match(/\d+/)[0]);
  const sum = long.reduce((a, b) => a + b, 0);
  const most = Math.max(...updates.map((from) => updates.filter((at) => at >= from && at < from + 1000).length));
  const [usual, slow, slowest] = [0.5, 0.9, 1].map((share) => waits.toSorted((a, b) => a - b)[Math.ceil(waits.length * share) - 1]);
  console.log(`      ${seconds.toFixed(1)} s, ${(cut / 1e6).toFixed(1)} MB; long tasks: ${long.length}, longest ${Math.round(Math.max(0, ...long))} ms, in all ${Math.round(sum)} ms`);
  console.log(`      updates: ${updates.length}, ${(updates.length / seconds).toFixed(2)} a second, at most ${most} within one`);
  console.log(`      keys: ${waits.length}, to the next frame half of them within ${usual} ms, nine of ten within ${slow} ms, the slowest ${slowest} ms; in the page itself the slowest ${Math.max(0, ...keys)} ms`);
  console.log(`      heap: ${before.toFixed(1)} MB after 5 s, ${after.toFixed(1)} MB after ${SECONDS - 5} s`);
  check(cut > BYTES * 0.95, `only ${cut} of ${BYTES} characters came through`);
  check(updates.length <= 8 * seconds + 2, `${updates.length} updates in ${seconds} s`);
  check(updates.length >= 2 * seconds, `only ${updates.length} updates in ${seconds} s`);
  // A single key may be delayed by other work on the machine; in a slow page, all keys are delayed.
  check(usual < 150 && slow < 500, `half of the keys waited ${usual} ms, one of ten ${slow} ms`);
  check(sum < seconds * 1000 * 0.1, `long tasks took ${sum} ms of ${seconds} s`);
  check(after - before < 15, `the heap grew from ${before} to ${after} MB`);
});

await finish();
