// Code of a model: its figures, tables, results and errors, in the page and after a reload:
//   node e2e/python.mjs <server with a scripted model> <folder for screenshots>
import { at, say, until } from "../dev/browser.mjs";
import { check, last, stories, texts } from "./stories.mjs";

const [server, pictures] = process.argv.slice(2);
const { step, finish, shot } = await stories(pictures);
const shows = async (page, words) => until(words, async () => (await last(page, "message:assistant"))?.includes(words), 60_000);
const widths = (page) => page.$$eval(at("tool:figure"), (all) => all.map((one) => (one.complete ? one.naturalWidth : 0)));
const openAll = async (page) => {
  for (const toggle of await page.$$("[aria-label='Show output']")) await toggle.click();
};

async function allIsShown(page) {
  await until("the figure", async () => (await widths(page))[0] > 200);
  const table = await page.$eval(`${at("tool:table")} table`, (one) => [...one.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
  check(JSON.stringify(table) === JSON.stringify([["", "n", "square"], ["0", "0", "0"], ["1", "1", "1"], ["2", "2", "4"]]), JSON.stringify(table));
  const error = await page.$eval(at("tool:error"), (one) => one.textContent);
  check(error.includes("ZeroDivisionError") && error.includes("division by zero") && error.includes("broken"), error);
  check((await texts(page, "tool:result")).includes("20"), "the value of the last expression");
  check((await texts(page, "tool:stdout")).join().includes("a table"), "what the code printed");
}

await step("figures, tables and errors are shown", {}, server, async (page) => {
  await say(page, "Plot squares");
  await shows(page, "All shown.");
  await openAll(page);
  await allIsShown(page);
  await shot(page, "python");
  await page.reload();
  await shows(page, "All shown.");
  await openAll(page);
  await allIsShown(page);
  await say(page, "Now show something else");
  await shows(page, "Harmless.");
  await openAll(page);
  await until("the drawing", async () => (await widths(page)).length === 2 && (await widths(page))[1] === 40);
  check((await texts(page, "tool:table")).at(-1)?.includes("cell"), "the cell of a hostile table");
  check((await page.$$(`${at("tool:table")} img, ${at("tool:table")} script, svg[onload]`)).length === 0, "no markup from outside");
});

await finish();
