// A command that writes a megabyte per second for a minute: the page must stay responsive and get only a few updates.
//   node e2e/flood.mjs <server> <folder for screenshots>
import { at, openPage, say, textOf, until } from "../dev/browser.mjs";
import { check, exit, pause, stories } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const SECONDS = 60;
/** Share of a processor that the page's main thread may use. */
const BUSY_SHARE = 0.25;
/** How much longer than in an empty page half of the keys, and nine of ten, may wait for the next frame, in milliseconds. */
const [USUAL_WAIT, SLOW_WAIT] = [150, 500];
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

/** Runs before the page's scripts: records slow keys and each update on the stream. */
function listen() {
  window.__keys = [];
  window.__updates = [];
  const isKey = (one) => one.name === "keydown";
  const observer = new PerformanceObserver((list) => window.__keys.push(...list.getEntries().filter(isKey).map((one) => one.duration)));
  observer.observe({ type: "event", durationThreshold: 16 });
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

/** Types a key and returns how long the next frame took, in milliseconds. */
async function typeKey(page) {
  const sentAt = performance.now();
  await page.keyboard.type("x");
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  return Math.round(performance.now() - sentAt);
}

/** How long half of the keys, nine of ten and all of them waited. */
function quantiles(waits) {
  return [0.5, 0.9, 1].map((share) => waits.toSorted((a, b) => a - b)[Math.ceil(waits.length * share) - 1]);
}

const { step, finish } = await stories(pictures);

await step("the page stays responsive during a minute of output", { before: listen }, server, async (page, browser) => {
  // Other work on the machine delays the keys of this empty page as much.
  const empty = await openPage(browser);
  await empty.setContent("<textarea autofocus>");
  await empty.focus("textarea");
  await say(page, "/bash true");
  await exit(page);
  const devtools = await page.createCDPSession();
  // The processor time of the page's main thread. Unlike the duration of its tasks, it does not depend on other work on the
  // machine.
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration").value;
  };
  const idle = await busy();
  await page.evaluate(() => { for (const end = performance.now() + 300; performance.now() < end;); });
  check(await busy() > idle + 0.02, "the processor time is measured");
  const heap = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    return (await page.metrics()).JSHeapUsedSize / 1e6;
  };
  // The composer accepts a long text at once; the measurement covers the keys after it.
  await page.$eval(at("composer:input"), (field, text) => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, `/bash ${FLOOD}`);
  await page.focus(at("composer:input"));
  await page.evaluate(() => { window.__keys.length = window.__updates.length = 0; });
  const [begun, busyBefore] = [Date.now(), await busy()];
  await page.keyboard.press("Enter");
  await until("output that was cut", () => page.$(at("tool:truncated")), 30_000);
  await pause(5000);
  const before = await heap();
  const [waits, waitsOfEmpty] = [[], []];
  while (Date.now() - begun < (SECONDS - 5) * 1000) {
    waits.push(await typeKey(page));
    waitsOfEmpty.push(await typeKey(empty));
    await pause(600);
  }
  const after = await heap();
  const isComplete = (field, count) => field.value === "x".repeat(count);
  check(await page.$eval(at("composer:input"), isComplete, waits.length), "every key arrived");
  check(await empty.$eval("textarea", isComplete, waits.length), "every key arrived in the empty page");
  await until("its end", async () => (await page.$$(at("tool:exit"))).length === 2, 40_000);
  const seconds = (Date.now() - begun) / 1000;
  const busySeconds = await busy() - busyBefore;
  const { keys, updates } = await page.evaluate(() => ({ keys: window.__keys, updates: window.__updates }));
  const cut = Number((await textOf(page, "tool:truncated")).replaceAll(",", "").match(/\d+/)[0]);
  const most = Math.max(...updates.map((from) => updates.filter((at) => at >= from && at < from + 1000).length));
  const [usual, slow, slowest] = quantiles(waits);
  const [usualOfEmpty, slowOfEmpty, slowestOfEmpty] = quantiles(waitsOfEmpty);
  console.log(`      ${seconds.toFixed(1)} s, ${(cut / 1e6).toFixed(1)} MB; the main thread used ${busySeconds.toFixed(1)} s of processor time`);
  console.log(`      updates: ${updates.length}, ${(updates.length / seconds).toFixed(2)} a second, at most ${most} within one`);
  console.log(`      keys: ${waits.length}, to the next frame half of them within ${usual} ms, nine of ten within ${slow} ms, the slowest ${slowest} ms; in the page itself the slowest ${Math.max(0, ...keys)} ms`);
  console.log(`      keys of an empty page: ${usualOfEmpty} ms, ${slowOfEmpty} ms, ${slowestOfEmpty} ms`);
  console.log(`      heap: ${before.toFixed(1)} MB after 5 s, ${after.toFixed(1)} MB after ${SECONDS - 5} s`);
  check(cut > BYTES * 0.95, `only ${cut} of ${BYTES} characters came through`);
  check(updates.length <= 8 * seconds + 2, `${updates.length} updates in ${seconds} s`);
  check(updates.length >= 2 * seconds, `only ${updates.length} updates in ${seconds} s`);
  check(busySeconds < seconds * BUSY_SHARE, `the main thread used ${busySeconds} s of processor time in ${seconds} s`);
  // A single key may be delayed by other work on the machine; in a slow page, all keys are delayed.
  check(usual < usualOfEmpty + USUAL_WAIT, `half of the keys waited ${usual} ms, in an empty page ${usualOfEmpty} ms`);
  check(slow < slowOfEmpty + SLOW_WAIT, `one of ten keys waited ${slow} ms, in an empty page ${slowOfEmpty} ms`);
  check(after - before < 15, `the heap grew from ${before} to ${after} MB`);
});

await finish();
