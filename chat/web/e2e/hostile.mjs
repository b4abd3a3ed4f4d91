// Hostile content from a sandbox, a model or a user:
//   node e2e/hostile.mjs <server with a scripted model> <folder for screenshots>
import { at, press, say, textOf, until } from "../dev/browser.mjs";
import { check, exit, last, pause, stories, texts } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const { step, finish, shot } = await stories(pictures);
const ATTACK = "<img src=x onerror=window.__xss=1><script>window.__xss=1</script>";
const SHORT = "<img src=x onerror=window.__xss=1>";
const chatOf = (page) => new URL(page.url()).pathname.split("/").at(-1);
/** No element on the page was created from outside content. */
const noMarkup = async (page) => check(await page.evaluate(() => document.querySelectorAll("img[onerror], [onload], script:not([src]), iframe[srcdoc], a[href^='javascript' i], a[href^='data' i], a[href^='vbscript' i]").length === 0), "markup from outside");

await step("output and file names are shown as text", {}, server, async (page) => {
  const sequences = "\\033]8;;javascript:window.__xss=1\\033\\\\click\\033]8;;\\033\\\\ \\033]0;title\\007 \\033]52;c;eA==\\007";
  await say(page, `/bash printf '%s\\n' '${ATTACK}'; printf '%s\\n' '${ATTACK}' >&2; printf '${sequences}\\n'; mkdir '${SHORT}'; printf '%s' '${ATTACK}' | tee evil.html evil.svg >evil.png; touch '${SHORT}/x' "$(printf 'invoice\\342\\200\\256fdp.sh')" "$(printf 'two\\nlines')" "$(printf '\\360\\237\\246\\200 crab.txt')"`);
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("<script>") && (await textOf(page, "tool:stderr")).includes("<script>"), "it is shown as it is");
  check((await page.$$(`${at("tool:stdout")} a`)).length === 0, "no link to a script");
  check((await page.$eval(at("chat:row"), (row) => row.textContent)).includes("<img"), "the title in the list");
  await press(page, at("panel:files"));
  const names = () => page.$$eval(`${at("file:row")} .file-open .clip`, (all) => all.map((one) => one.textContent));
  await until("the names", async () => (await names()).some((name) => name.includes("<img")));
  const all = (await names()).join("|");
  check(!/[\u202a-\u202e\u2066-\u2069\n]/.test(all) && all.includes("fdp.sh"), `no name may contain bidi control characters: ${JSON.stringify(all)}`);
  check(all.includes("🦀 crab.txt"), all);
  await shot(page, "odd-names");
  for (const [name, wanted] of [["evil.html", "<script>"], ["evil.svg", "<script>"]]) {
    await press(page, `${at("file:row")}[data-path="${name}"] .file-open`);
    await until(`the text of ${name}`, async () => (await page.$(".viewer-text")) && (await page.$eval(".viewer-text", (one) => one.textContent)).includes(wanted));
    await press(page, "[aria-label='Back to the list']");
  }
  await press(page, `${at("file:row")}[data-path="evil.png"] .file-open`);
  await until("an invalid image", () => page.$(at("file:broken")));
  await press(page, "[aria-label='Back to the list']");
  await press(page, `${at("file:row")}[data-path="${SHORT}"] .file-open`);
  await until("the folder", async () => (await page.$eval(".crumbs", (one) => one.textContent)).includes("<img"));
  await noMarkup(page);
  // When a file is opened by its URL, the browser saves it. It is never a page of the chat's own origin.
  const head = await page.evaluate(async (id) => {
    const response = await fetch(`/api/chats/${id}/files/content?path=evil.html`);
    return [response.headers.get("content-disposition"), response.headers.get("content-type"), response.headers.get("content-security-policy")].join(" ");
  }, chatOf(page));
  check(head.startsWith("attachment") && head.includes("default-src 'none'"), head);
});

await step("a model's answers and tool calls are shown as text", {}, server, async (page) => {
  await say(page, ATTACK);
  await until("the model's answer", async () => (await last(page, "message:assistant"))?.includes("harmless"), 60_000);
  for (const toggle of await page.$$("[aria-label='Show output']")) await toggle.click();
  await pause(200);
  await noMarkup(page);
  check((await texts(page, "tool:bash")).join().includes("<img") && (await texts(page, "tool:writeFile")).join().includes("<script>") && (await texts(page, "tool:readFile")).join().includes("<script>"), "the cards show it as it is");
  const links = await page.$$eval(".markdown a", (all) => all.map((one) => one.href));
  check(links.length > 0 && links.every((href) => /^https:/.test(href)), links.join());
  check((await page.$$(".markdown img, .markdown iframe, .markdown svg:not(.lucide)")).length === 0, "no picture and no frame");
  await say(page, "Fail, please");
  await until("the error", async () => (await page.$(at("chat:failure"))) && (await textOf(page, "chat:failure")).includes("<img"), 30_000);
  await shot(page, "attacks");
  await noMarkup(page);
  await page.reload();
  await until("all of it again", async () => (await texts(page, "message:assistant")).join().includes("harmless"));
  await noMarkup(page);
});

await step("a page in the preview stays in its frame", { expected: /Unsafe attempt to initiate navigation/ }, server, async (page) => {
  await say(page, "Show me a page");
  const frame = await until("the preview", () => page.$(at("preview:frame")), 60_000);
  await until("the preview has tried everything", async () => {
    const inside = await frame.contentFrame();
    return (await inside?.$eval("body", (body) => body.textContent).catch(() => ""))?.includes("done");
  }, 30_000);
  await pause(300);
  check(page.url().startsWith(`${server}/c/`) && !(await page.title()).includes("mine"), page.url());
  check(await page.$(at("composer:input")), "the page is still there");
});

await step("a title is always shown as text", {}, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  const id = chatOf(page);
  const title = `${SHORT} \u202Eegami`;
  const status = await page.evaluate(async ([chat, name]) => (await fetch(`/api/chats/${chat}`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ title: name }) })).status, [id, title]);
  check(status === 200 || status === 400, `it is taken or refused: ${status}`);
  await page.reload();
  const row = `${at("chat:row")}[data-chat-id="${id}"]`;
  await until("the row", () => page.$(row));
  if (status === 200) {
    check((await page.$eval(`${row} .clip`, (one) => one.textContent)).includes("<img"), "in the list");
    check((await page.title()).includes("<img"), await page.title());
    check(!(await page.title()).includes("\u202e") && !(await page.$eval(`${row} .clip`, (one) => one.textContent)).includes("\u202e"), "it contains no bidi control characters");
  }
  await page.hover(row);
  await press(page, `${row} .menu .icon-button`);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await until("the question", () => page.$(at("confirm:yes")));
  await noMarkup(page);
});

await step("one line of twelve thousand characters, and other scripts", { width: 360, height: 740, phone: true }, server, async (page) => {
  await say(page, "/bash head -c 12000 /dev/zero | tr '\\0' w; echo; printf '\\327\\251\\327\\234\\327\\225\\327\\235 \\360\\237\\221\\251\\342\\200\\215\\360\\237\\222\\273 end\\n'");
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("👩‍💻 end"), "each character whole");
  check(await page.$eval(at("tool:stdout"), (pane) => pane.scrollWidth <= pane.clientWidth), "the line is broken");
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(over <= 0, `${over} pixels too wide`);
});

await finish();
