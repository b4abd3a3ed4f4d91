// A terminal in the page: typing, a reload, a second page, and its end:
//   node e2e/terminal.mjs <server> <folder for screenshots>
import { at, audit, openPage, press, say, until } from "../dev/browser.mjs";
import { check, exit, pause, stories, texts } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const { step, finish, shot } = await stories(pictures);

/** The rows of the screen, as the emulator shows them. */
const rows = (page) => page.$$eval(`${at("terminal:screen")} .xterm-rows > div`, (all) => all.map((row) => row.textContent).join("\n"));
const sees = (page, words) => until(words, async () => (await rows(page)).includes(words), 30_000);
const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.className);

async function openTerminal(page) {
  await press(page, at("panel:terminal"));
  await press(page, at("terminal:new"));
  await page.waitForSelector(`${at("terminal:screen")} .xterm-rows`, { timeout: 60_000 });
  await sees(page, "$");
}

async function type(page, line) {
  await page.focus(`${at("terminal:screen")} textarea`);
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}

async function mustBeAccessible(page, what) {
  const found = await audit(page);
  check(found.length === 0, `${what}: ${found.join("; ")}`);
}

await step("a terminal works, also after a reload and on a second page", {}, server, async (page, browser) => {
  await press(page, at("panel:terminal"));
  check((await page.$(`${at("terminal:new")}:disabled`)) !== null, "a chat without messages has no terminals");
  await press(page, at("panel:terminal"));
  await say(page, "/bash true");
  await exit(page);
  await openTerminal(page);
  await type(page, "x=kept; echo is-$x; printf '\\033[31mred\\033[0m\\n'");
  await sees(page, "is-kept");
  await sees(page, "red");
  // Keys of the page belong to the shell here: Ctrl+K and Escape.
  await page.keyboard.type("echo cut-me");
  for (let left = "cut-me".length; left > 0; left--) await page.keyboard.press("ArrowLeft");
  await page.keyboard.down("Control");
  await page.keyboard.press("k");
  await page.keyboard.up("Control");
  await page.keyboard.type("whole");
  await page.keyboard.press("Enter");
  await sees(page, "\nwhole");
  check((await page.$("dialog[open]")) === null, "the palette stays closed");
  await mustBeAccessible(page, "a terminal");
  await shot(page, "terminal");
  await page.keyboard.press("F6");
  check((await focused(page)) === "Close", `F6 leaves the terminal: ${await focused(page)}`);

  await page.reload();
  await press(page, at("panel:terminal"));
  await sees(page, "is-kept");
  await type(page, "echo again-$x");
  await sees(page, "again-kept");

  // Only the page that a person looks at answers.
  await page.bringToFront();
  check(await page.evaluate(() => document.hasFocus()), "the page has the focus");
  // A query in the kept output was answered when it was new.
  await type(page, "IFS= read -rs -d c -p $'\\e[c' answer; echo answered-${#answer}");
  await until("the answer", async () => /answered-[1-9]/.test(await rows(page)));
  await page.reload();
  await press(page, at("panel:terminal"));
  await sees(page, "answered-");
  await type(page, "echo clean-$x");
  await sees(page, "\nclean-kept");
  check(!/\[\?1;2c|1;2c/.test(await rows(page)), "nothing is typed by itself");

  const second = await openPage(browser, { width: 900, height: 700 });
  await second.goto(page.url());
  await press(second, at("panel:terminal"));
  await sees(second, "again-kept");
  await type(second, "echo second-$x");
  await sees(page, "second-kept");
  await second.browserContext().close();
});

await step("several terminals, of which one is closed and one ends", {}, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  await openTerminal(page);
  await type(page, "echo number-one");
  await sees(page, "number-one");
  await press(page, at("terminal:new"));
  await until("two tabs", async () => (await texts(page, "terminal:tab")).length === 2);
  await until("an empty screen", async () => !(await rows(page)).includes("number-one"));
  await sees(page, "$");
  await type(page, "echo number-two");
  await sees(page, "number-two");
  await press(page, at("terminal:tab"));
  await sees(page, "number-one");
  await press(page, at("terminal:close"));
  await press(page, "dialog[open] .button-danger, dialog[open] .button-main");
  await until("one tab", async () => (await texts(page, "terminal:tab")).length === 1);
  await sees(page, "number-two");
  await type(page, "exit 7");
  await until("the end", async () => (await texts(page, "terminal:panel")).join().includes("exit code 7"), 30_000);
});

await step("the window's size is the terminal's", {}, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  await openTerminal(page);
  const sizes = async () => [...(await rows(page)).matchAll(/size (\d+) (\d+)/g)].map(([, height, width]) => [Number(height), Number(width)]);
  await type(page, "echo size $(stty size)");
  await until("a size", async () => (await sizes()).length === 1);
  const [[height, width]] = await sizes();
  await page.setViewport({ width: 1280, height: 500 });
  await until("a smaller size", async () => {
    await type(page, "clear; echo size $(stty size)");
    await pause(300);
    const [now] = await sizes();
    return now !== undefined && now[0] < height && now[1] === width;
  });
});

await step("hostile output stays in the terminal", {}, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  await openTerminal(page);
  const escapes = ["\\033]0;<img src=x onerror=window.__xss=1>\\007", "\\033]8;;javascript:window.__xss=1\\033\\\\link\\033]8;;\\033\\\\", "\\033]52;c;aGFja2Vk\\007", "<script>window.__xss=1</script>"];
  await type(page, `printf '${escapes.join("")}\\n'; echo over-$((1+1))`);
  await sees(page, "over-2");
  check((await page.title()) !== "<img src=x onerror=window.__xss=1>", "the title is the chat's");
  check((await page.$$(`${at("terminal:screen")} img, ${at("terminal:screen")} script, ${at("terminal:screen")} a[href^=javascript]`)).length === 0, "no markup from outside");
});

await step("a phone in the dark", { width: 390, height: 844, phone: true, dark: true }, server, async (page) => {
  await say(page, "/bash true");
  await exit(page);
  await openTerminal(page);
  await type(page, "echo on-a-phone");
  await sees(page, "on-a-phone");
  await mustBeAccessible(page, "a terminal on a phone");
  await shot(page, "terminal-phone");
});

await finish();
