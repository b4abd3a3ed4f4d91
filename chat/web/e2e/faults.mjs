// The page while a server behind it is down. The board disconnects and reconnects the cables between them:
//   node e2e/faults.mjs <page> <board> <model server> <folder for screenshots>
import { at, press, say, textOf, until } from "../dev/browser.mjs";
import { check, draft, last, pause, stories, texts } from "./stories.mjs";

const [server, board, model, pictures] = process.argv.slice(2);
const turn = async (cable, way) => check((await fetch(`${board}/${cable}/${way}`, { method: "POST" })).ok, `${cable} ${way}`);
const allIn = async () => {
  for (const cable of ["daemon", "model", "chat"]) await turn(cable, "in");
  // The server caches its check of sandboxd for five seconds.
  await until("the server knows", async () => {
    // A connection that was kept open is broken.
    const app = await fetch(`${server}/api/app`).catch(() => null);
    return app?.ok && (await app.json()).tools.enabled;
  });
};
const { step, finish, shot } = await stories(pictures, allIn);
const banner = (page) => until("the banner", () => page.$(at("banner:error")), 20_000);
const noBanner = (page) => until("no banner", async () => !(await page.$(at("banner:error"))), 40_000);
const failure = (page) => until("the failure", async () => (await page.$(at("chat:failure"))) && (await textOf(page, "chat:failure")), 40_000);
const sends = async (page, text, wanted) => {
  await say(page, text);
  await until(`"${wanted}"`, async () => (await last(page, "tool:stdout"))?.includes(wanted), 40_000);
};

await step("a command that is lost with its sandboxd reports it and keeps its output", {}, server, async (page) => {
  await say(page, "/bash echo begun; sleep 100");
  await until("output", async () => (await last(page, "tool:stdout"))?.includes("begun"), 30_000);
  await turn("daemon", "out");
  // The server tries for a minute, because sandboxd may only restart.
  await until("its end", async () => !(await page.$(at("tool:running"))), 90_000);
  const shown = await textOf(page, "tool:bash");
  check(/broken off.*sandboxd.*does not respond/s.test(shown), shown);
  check((await textOf(page, "tool:stdout")).includes("begun"), "what it wrote before is still there");
  await banner(page);
  check(/sandboxd .*Check that it runs/.test(await textOf(page, "banner:error")), `what to do: ${await textOf(page, "banner:error")}`);
  await shot(page, "away-sandboxd");
  // Another sandboxd, which does not know the chat's sandbox.
  await turn("daemon", "other");
  await noBanner(page);
  await sends(page, "/bash echo again", "again");
});

await step("a command reports that sandboxd is down, and can be run again later", {}, server, async (page) => {
  await sends(page, "/bash touch here.txt; echo before", "before");
  await press(page, at("panel:files"));
  await until("its file", () => page.$(`${at("file:row")}[data-path="here.txt"]`));
  await turn("daemon", "out");
  await press(page, `${at("files:panel")} [aria-label=Refresh]`);
  const refused = () => page.$(`${at("files:panel")} [role=alert]`);
  await until("the error of the files panel", refused);
  await banner(page);
  await say(page, "/bash echo after");
  const alert = await until("an error in its card", () => page.$(`${at("tool:bash")} [role=alert]`), 30_000);
  check((await alert.evaluate((one) => one.textContent)).includes("sandboxd"), "which says why");
  await shot(page, "kept-command");
  await turn("daemon", "in");
  await noBanner(page);
  await until("the files again", async () => !(await refused()) && (await page.$(`${at("file:row")}[data-path="here.txt"]`)));
  await (await page.$$("[aria-label='Run the command again']")).at(-1).click();
  await until("its output", async () => (await last(page, "tool:stdout"))?.includes("after"), 30_000);
  check((await texts(page, "message:user")).length === 2, "each message once");
});

await step("a model server that is down is named, and the request can be retried", {}, server, async (page) => {
  await turn("model", "out");
  await say(page, "Are you there?");
  const shown = await failure(page);
  check(shown.includes(new URL(model).host) && shown.includes("does not respond"), shown);
  await shot(page, "away-model");
  await page.reload();
  await until("the question", () => page.$(at("message:user")));
  await until("the note that there is no answer", () => page.$(at("chat:unanswered")));
  check((await textOf(page, "message:failed")).includes(new URL(model).host), "and why");
  await turn("model", "in");
  await press(page, at("chat:again"));
  await until("the answer", async () => (await last(page, "message:assistant"))?.includes("Back again"));
  check((await texts(page, "message:user")).length === 1 && (await texts(page, "message:assistant")).length === 1, "one question, one answer");
  check(!(await page.$(at("chat:failure"))) && !(await page.$(at("chat:unanswered"))), "no failure is shown any more");
});

await step("a page that loses its connection joins the answer again", {}, server, async (page) => {
  await sends(page, "/bash echo begun; sleep 6; echo ended", "begun");
  await turn("chat", "out");
  await banner(page);
  await turn("chat", "in");
  await noBanner(page);
  await until("its end", async () => (await last(page, "tool:stdout"))?.includes("ended"), 30_000);
  await until("an idle composer", () => page.$(at("composer:send")));
  check(!(await page.$(at("chat:failure"))), "no failure is shown");
  check((await texts(page, "message:assistant")).length === 1, "one answer");
});

await step("the chat server does not respond in the middle of an answer", {}, server, async (page) => {
  await say(page, "Answer in full");
  await until("half of it", async () => (await last(page, "message:assistant"))?.includes("Half an answer"));
  await turn("chat", "out");
  await banner(page);
  await failure(page);
  await say(page, "And now?");
  await until("the text is back in the composer", async () => (await draft(page)) === "And now?");
  check((await textOf(page, "banner:error")).includes("chat server"), await textOf(page, "banner:error"));
  await shot(page, "away-chat");
  await pause(3000);
  await turn("chat", "in");
  await noBanner(page);
  check((await draft(page)) === "And now?", "the text is still there");
  check((await last(page, "message:assistant")).includes("Half an answer"), "what had come is still there");
  // The server did not stop: it is still answering.
  await press(page, at("composer:stop"));
  await until("an idle composer", () => page.$(`${at("composer:send")}:not(:disabled)`));
  await page.focus(at("composer:input"));
  await page.keyboard.press("Enter");
  await until("the answer", async () => (await last(page, "message:assistant"))?.includes("All of it"), 30_000);
  check((await texts(page, "message:user")).length === 2, "each question once");
});

await step("a page that is opened while the chat server is down loads later", {}, server, async (page) => {
  await sends(page, "/bash echo kept", "kept");
  const address = page.url();
  await press(page, at("chat:new"));
  await until("the empty page", () => page.$(".examples"));
  await turn("chat", "out");
  await say(page, "/bash echo later");
  await until("the text is back in the composer", async () => (await draft(page)) === "/bash echo later");
  check((await failure(page)).includes("not sent"), "it says so");
  await turn("chat", "in");
  await noBanner(page);
  await until("the failure disappears", async () => !(await page.$(at("chat:failure"))));
  await page.goto(address);
  await until("the chat", async () => (await last(page, "tool:stdout"))?.includes("kept"));
});

await finish();
