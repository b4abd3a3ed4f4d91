// Two people on one chat, in headless Chromium, with the real server: `cargo nextest run -p chat browser_people` starts it.
//   node e2e/people.mjs <server with the admin ann> <ann's password> <folder for screenshots>
import { at, audit, openPage, press, say, textOf, until } from "../dev/browser.mjs";
import { check, exit, last, stories, texts } from "./stories.mjs";

const [server, password, pictures] = process.argv.slice(2);
const { step, finish, shot } = await stories(pictures);
const BOBS = "bob's long password";
let link = "";

async function enter(page, name, secret) {
  await page.waitForSelector(at("entry:name"));
  await page.type(at("entry:name"), name);
  await page.type(at("entry:password"), secret);
  await press(page, at("entry:send"));
}

/** The page is loaded again once a user is signed in. */
async function signIn(page, name, secret) {
  await Promise.all([page.waitForNavigation(), enter(page, name, secret)]);
  await until("the account", async () => (await page.$(at("account:name"))) && (await textOf(page, "account:name")) === name, 30_000);
}

async function choose(page, root, item) {
  await press(page, `${root} [aria-haspopup=menu]`);
  await until(`the item ${item}`, async () => {
    const items = await page.$$(`${root} [role=menuitem]`);
    for (const one of items) if ((await one.evaluate((element) => element.textContent)) === item) return one.click().then(() => true);
    return false;
  });
}

const signedOut = (page) => until("the way in", () => page.$(at("entry:form")), 30_000);

async function mustBeAccessible(page, what) {
  const found = await audit(page);
  check(found.length === 0, `${what}: ${found.join("; ")}`);
}

await step("a user signs in, after a wrong password", {}, server, async (page) => {
  await signedOut(page);
  await mustBeAccessible(page, "signing in");
  await enter(page, "ann", "wrong");
  await until("the refusal", async () => (await page.$(at("entry:error"))) && (await textOf(page, "entry:error")).includes("wrong"));
  await page.$eval(at("entry:name"), (field) => { field.value = ""; });
  await page.$eval(at("entry:password"), (field) => { field.value = ""; });
  await signIn(page, "ann", password);
  check((await page.evaluate(() => document.cookie)) === "", "scripts do not see the cookie");
  await say(page, "/bash echo hers >file; cat file");
  await exit(page);
  await page.reload();
  await exit(page);
  check((await textOf(page, "tool:stdout")).includes("hers"), "the session survives a reload");
});

await step("an admin invites a user", {}, server, async (page) => {
  await signIn(page, "ann", password);
  await choose(page, at("account:row"), "People");
  await until("herself", async () => (await texts(page, "people:user")).length === 1);
  await press(page, at("people:invite"));
  const field = await until("the link", () => page.$(at("people:link")));
  link = await field.evaluate((input) => input.value);
  await mustBeAccessible(page, "people");
  await shot(page, "people");
});

await step("an invited user has no chats of others", {}, server, async (page) => {
  await page.goto("about:blank");
  await page.goto(link);
  await signedOut(page);
  check(!page.url().includes("invitation"), "the secret is not in the address bar");
  await signIn(page, "bob", BOBS);
  check(!(await page.content()).includes("hers"), "no chat of hers");
  await say(page, "/bash ls; echo listed");
  await exit(page);
  check((await last(page, "tool:stdout")).trim() === "listed", await last(page, "tool:stdout"));
  await press(page, `${at("account:row")} [aria-haspopup=menu]`);
  const items = await page.$$eval(`${at("account:row")} [role=menuitem]`, (all) => all.map((one) => one.textContent));
  check(items.join() === "Account,Sign out", items.join());
  await page.keyboard.press("Escape");
  await choose(page, at("account:row"), "Account");
  await until("his session", async () => (await texts(page, "account:session")).length === 1);
  await mustBeAccessible(page, "account");
  await shot(page, "account");
  await page.keyboard.press("Escape");
  await Promise.all([page.waitForNavigation(), choose(page, at("account:row"), "Sign out")]);
  await signedOut(page);
  check(!(await page.content()).includes("listed"), "nothing of his is left");
});

await step("a disabled account is out at once", {}, server, async (page, browser) => {
  await signIn(page, "bob", BOBS);
  await say(page, "/bash echo begun; sleep 100");
  await until("its output", async () => (await page.$(at("tool:stdout"))) && (await textOf(page, "tool:stdout")).includes("begun"), 30_000);
  const admin = await openPage(browser);
  await admin.goto(server);
  await signIn(admin, "ann", password);
  await choose(admin, at("account:row"), "People");
  await until("both", async () => (await texts(admin, "people:user")).length === 2);
  await choose(admin, `${at("people:user")}[data-name=bob]`, "Disable");
  await until("the badge", async () => (await texts(admin, "people:user")).some((row) => row.includes("disabled")));
  await admin.browserContext().close();
  await signedOut(page);
  await enter(page, "bob", BOBS);
  await until("the refusal", () => page.$(at("entry:error")));
});

await step("signing in fits on a narrow screen", { width: 360, height: 640, phone: true, dark: true }, server, async (page) => {
  await signedOut(page);
  await mustBeAccessible(page, "narrow");
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(over <= 0, `${over} pixels too wide`);
});

await finish();
