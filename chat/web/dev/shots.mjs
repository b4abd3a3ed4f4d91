// Saves screenshots of the page's states into a folder: node dev/shots.mjs /tmp/shots
import { mkdir } from "node:fs/promises";
import { at, openPage, say, startBrowser, startMock } from "./browser.mjs";

const folder = process.argv[2] ?? "shots";
await mkdir(folder, { recursive: true });
const mock = await startMock({ PORT: "3101", PREVIEW_PORT: "3102" });
const bare = await startMock({ PORT: "3103", PREVIEW_PORT: "3104", MOCK_MODELS: "0" });
const lan = await startMock({ PORT: "3105", PREVIEW_PORT: "3106", MOCK_TOKEN: "right-token" });
const browser = await startBrowser();
const troubles = [];
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function tour(name, options, url = mock.url) {
  const page = await openPage(browser, { ...options, troubles });
  await page.goto(url);
  await page.waitForSelector(at("composer:input"));
  await pause(500);
  const shot = async (what) => {
    await pause(350);
    await page.screenshot({ path: `${folder}/${name}-${what}.png` });
  };
  return { page, shot };
}

try {
  for (const [name, options] of [["light", {}], ["dark", { dark: true }], ["tablet", { width: 768, height: 1024 }], ["phone", { width: 360, height: 740, phone: true, dark: false }]]) {
    const { page, shot } = await tour(name, options);
    await shot("1-empty");
    await say(page, "Build a small page and show it to me");
    await page.waitForSelector(at("tool:running"));
    await pause(700);
    await shot("2-running");
    await page.waitForSelector(at("preview:frame"));
    await page.waitForSelector(at("composer:send"), { timeout: 30_000 });
    await pause(600);
    await shot("3-answer");
    await page.$eval(".transcript", (box) => (box.scrollTop = 0));
    await shot("4-cards");
    await page.click(at("panel:files"));
    await page.waitForSelector(at("file:row"));
    await shot("5-files");
    await page.click(`${at("file:row")}[data-path="README.md"] .file-open`);
    await shot("6-file");
    if (await page.$("dialog[open]")) await page.click("dialog[open] [aria-label=Close]");
    await page.click(at("panel:session"));
    await page.waitForSelector(at("session:state"));
    await shot("7-session");
    if (await page.$("dialog[open]")) {
      await page.click("dialog[open] [aria-label=Close]");
      await page.click(at("chats:open"));
      await page.waitForSelector("dialog[open]");
    }
    await shot("8-chats");
    await page.click(at("palette:open"));
    await shot("9-palette");
  }
  for (const [name, options] of [["cmd-light", {}], ["cmd-dark", { dark: true }], ["cmd-phone", { width: 360, height: 740, phone: true, dark: true }]]) {
    const { page, shot } = await tour(name, options, bare.url);
    await shot("1-empty");
    await say(page, "/bash echo err 12");
    await page.waitForSelector(at("tool:exit"), { timeout: 20_000 });
    await say(page, "/bash timeout");
    await pause(3000);
    await say(page, "/bash flood");
    await page.waitForSelector(at("tool:truncated"));
    await pause(500);
    await shot("2-flood");
    await page.click(at("composer:stop"));
    await page.waitForSelector(at("composer:send"));
    await pause(1200);
    await shot("3-stopped");
    const full = await page.$$(at("tool:full"));
    await full[0].click();
    await shot("4-full");
    await page.keyboard.press("Escape");
    await say(page, "what is this?");
    await page.waitForSelector(at("chat:failure"));
    await shot("5-refused");
  }
  const locked = await openPage(browser, { troubles });
  await locked.goto(lan.url);
  await locked.waitForSelector(at("lan-admin:open"));
  await pause(400);
  await locked.screenshot({ path: `${folder}/lan-1-locked.png` });
  await locked.click(at("lan-admin:open"));
  await locked.type(at("bash-tools:lan-admin-token"), "wrong");
  await locked.click(at("lan-admin:save"));
  await pause(700);
  await locked.screenshot({ path: `${folder}/lan-2-denied.png` });
  console.log(troubles.length ? troubles.join("\n") : "no troubles");
} finally {
  await browser.close();
  for (const server of [mock, bare, lan]) server.stop();
}
