// The page in headless Chromium, with the real chat server and its sandboxes. `cargo nextest run -p chat browser` starts them:
//   node e2e/story.mjs <server with a scripted model> <server with a token> <server with a list of hosts> <token> <folder for screenshots>
// A policy violation or an error on the console fails the run.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { at, press, say, textOf, until } from "../dev/browser.mjs";
import { check, exit, last, stories } from "./stories.mjs";

const [local, lan, listed, token, pictures] = process.argv.slice(2);
const { step, finish } = await stories(pictures);

await step("a command streams before it ends", {}, local, async (page) => {
  await say(page, "/bash echo one; sleep 2; echo two; echo bad >&2; exit 3");
  await until("its first output", async () => (await page.$(at("tool:stdout"))) && (await textOf(page, "tool:stdout")).includes("one"), 30_000);
  check(await page.$(at("tool:running")), "it should still run");
  await exit(page);
  check((await textOf(page, "tool:exit")).includes("3"), await textOf(page, "tool:exit"));
  check((await textOf(page, "tool:stdout")).includes("two") && (await textOf(page, "tool:stderr")).includes("bad"), "all of its output");
  await page.reload();
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("two"), "a reload keeps it");
});

await step("the page links to its third-party notices", {}, local, async (page) => {
  const link = await until("the link", () => page.$(at("notices")));
  const address = await link.evaluate((one) => one.href);
  const response = await fetch(address);
  const text = await response.text();
  check(response.ok && response.headers.get("content-type").startsWith("text/plain"), `${response.status} ${response.headers.get("content-type")}`);
  for (const name of ["react-dom", "@fontsource-variable/inter", "Permission is hereby granted", "SIL OPEN FONT LICENSE"]) check(text.includes(name), name);
});

await step("a long output shows how much of it is missing", {}, local, async (page) => {
  await say(page, "/bash seq 1 20000");
  await exit(page);
  check((await textOf(page, "tool:truncated")).match(/9\d,\d{3}/), await textOf(page, "tool:truncated"));
  check((await textOf(page, "tool:stdout")).includes("20000"), "the end of it");
});

await step("a stopped command ends and keeps its output", {}, local, async (page) => {
  await say(page, "/bash echo begun; sleep 100; echo never");
  await until("its output", async () => (await page.$(at("tool:stdout"))) && (await textOf(page, "tool:stdout")).includes("begun"), 30_000);
  await press(page, at("composer:stop"));
  await exit(page);
  const stdout = await textOf(page, "tool:stdout");
  check(stdout.includes("begun") && !stdout.includes("never"), stdout);
});

await step("a model writes a page, serves it and shows it", {}, local, async (page) => {
  await say(page, "Build a page and show it to me");
  const frame = await until("the preview", () => page.$(at("preview:frame")), 60_000);
  // Until the server listens, the gateway shows its own page, which reloads by itself.
  await until("the page in it", async () => {
    const inside = await frame.contentFrame();
    return (await inside?.$eval("h1", (one) => one.textContent).catch(() => undefined)) === "Made by a model";
  }, 30_000);
  for (const id of ["tool:writeFile", "tool:bash"]) check(await page.$(at(id)), `a card of ${id}`);
  await until("the end of the answer", async () => (await page.$(at("message:assistant"))) && (await last(page, "message:assistant")).includes("There it is"));
});

await step("chats do not see each other's files", {}, local, async (page) => {
  await say(page, "/bash echo mine >mine.txt; ls");
  await exit(page);
  await press(page, at("chat:new"));
  await until("an empty chat", async () => !(await page.$(at("tool:exit"))));
  await say(page, "/bash ls; echo listed");
  await exit(page);
  check((await last(page, "tool:stdout")).trim() === "listed", await last(page, "tool:stdout"));
});

await step("files are uploaded and shown", {}, local, async (page) => {
  const file = join(await mkdtemp(join(tmpdir(), "e2e")), "brought.txt");
  await writeFile(file, "from outside");
  await say(page, "/bash true");
  await exit(page);
  await press(page, at("panel:files"));
  const input = await until("the file input", () => page.$(at("files:upload")));
  await input.uploadFile(file);
  await until("the file", () => page.$(`${at("file:row")}[data-path="brought.txt"]`));
  await say(page, "/bash cat brought.txt");
  await until("the file's content", async () => (await last(page, "tool:stdout"))?.includes("from outside"), 30_000);
  const chat = new URL(page.url()).pathname.split("/").at(-1);
  const down = await page.evaluate(async (id) => (await fetch(`/api/chats/${id}/files/content?path=brought.txt`)).text(), chat);
  check(down === "from outside", down);
});

await step("the isolation panel shows the network policy, and a denied host can be allowed", {}, listed, async (page) => {
  const request = "/bash curl -sm 5 -o /dev/null -w '<%{http_code}>' http://host.invalid/";
  await say(page, request);
  await exit(page);
  check((await last(page, "tool:stdout")).includes("<403>"), await last(page, "tool:stdout"));
  await press(page, at("panel:session"));
  const shield = () => page.$eval(".posture", (one) => one.textContent).catch(() => "");
  await until("the policy", async () => (await shield()).includes("only the allowed hosts"));
  check(!(await shield()).includes("Network: none"), await shield());
  await until("the denied host", async () => (await last(page, "network:denial"))?.includes("host.invalid:80"));
  await press(page, at("network:allow"));
  await until("the allowed host", async () => (await last(page, "network:allowed"))?.includes("host.invalid"));
  check(!(await page.$(at("network:denial"))), "it is no longer denied");
  await say(page, request);
  await until("the second answer", async () => (await page.$$(at("tool:exit"))).length === 2, 30_000);
  check(!(await last(page, "tool:stdout")).includes("<403>"), await last(page, "tool:stdout"));
});

await step("no output of a sandbox is executed", {}, local, async (page) => {
  const attack = "<img src=x onerror=window.__xss=1><script>window.__xss=1</script>";
  await say(page, `/bash printf '%s\\n' '${attack}'; printf '%s\\n' '${attack}' >&2; touch '<img src=x onerror=window.__xss=1>'`);
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("<script>"), "it is shown as it is");
  await press(page, at("panel:files"));
  await until("the file's name", async () => (await page.$$eval(at("file:row"), (all) => all.map((one) => one.textContent).join())).includes("<img"));
  await say(page, "Attack me");
  await until("the model's answer", async () => (await page.$$(at("message:assistant"))).length >= 2 && (await last(page, "message:assistant")).includes("harmless"));
});

await step("a token is requested, rejected and accepted", {}, lan, async (page) => {
  const field = at("bash-tools:lan-admin-token");
  await until("the dialog", async () => (await page.$(field)) ?? (await page.click(at("lan-admin:open")).catch(() => {}), null));
  await page.type(field, "a-wrong-token-of-more-than-32-characters");
  await press(page, at("lan-admin:save"));
  await until("the token is rejected", async () => (await page.$(at("lan-admin:status"))) && (await textOf(page, "lan-admin:status")).includes("denied"));
  if (!(await page.$(field))) await press(page, at("lan-admin:open"));
  await page.$eval(field, (input) => input.select());
  await page.type(field, token);
  await press(page, at("lan-admin:save"));
  await page.goto(`${lan}/`);
  await say(page, "/bash echo let in");
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("let in"), "with the token it runs");
});

await step("the page works on a narrow screen", { width: 360, height: 740, phone: true }, local, async (page) => {
  await say(page, `/bash echo ${"wide".repeat(60)}`);
  await exit(page);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(over <= 0, `${over} pixels too wide`);
});

await finish();
