// Shared parts of all browser stories. A step fails if the policy rejects something, if the console shows an error,
// or if a script from outside ran.
import { join } from "node:path";
import { at, openPage, startBrowser, until } from "../dev/browser.mjs";

/** `reset` runs before each step, so that a failed step does not make the next one fail. */
export async function stories(pictures, reset = async () => {}) {
  const browser = await startBrowser();
  let failed = 0;

  async function step(name, options, url, run) {
    await reset();
    const troubles = [];
    const page = await openPage(browser, { ...options, troubles });
    const begun = Date.now();
    const picture = () => page.screenshot({ path: join(pictures, `${name.replaceAll(/[^a-z]+/gi, "-")}.png`) });
    try {
      await page.goto(url);
      await run(page, browser);
      await picture();
      const refused = await page.evaluate(() => window.__violations);
      if (refused.length) throw new Error(`refused by the policy: ${refused.join("; ")}`);
      if ((await page.evaluate(() => window.__xss)) !== undefined) throw new Error("a script from the outside ran");
      const unexpected = troubles.filter((trouble) => !options.expected?.test(trouble));
      if (unexpected.length) throw new Error(unexpected.join("; "));
      console.log(`ok    ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (thrown) {
      failed += 1;
      await picture().catch(() => {});
      console.log(`FAIL  ${name}\n      ${thrown.message}`);
    } finally {
      await page.browserContext().close();
    }
  }

  /** Saves a screenshot in the middle of a step, for inspection. */
  const shot = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });

  async function finish() {
    await browser.close();
    process.exit(failed ? 1 : 0);
  }
  return { step, finish, shot };
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

export const exit = (page, timeoutMs = 30_000) => until("the command's end", () => page.$(at("tool:exit")), timeoutMs);
export const texts = (page, id) => page.$$eval(at(id), (all) => all.map((one) => one.textContent));
export const last = async (page, id) => (await texts(page, id)).at(-1);
export const draft = (page) => page.$eval(at("composer:input"), (field) => field.value);
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
