// Debian's Chromium with puppeteer-core. Records everything that the page's policy rejects.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import puppeteer from "puppeteer-core";

export async function startMock(env) {
  const child = spawn(process.execPath, [new URL("mock.mjs", import.meta.url).pathname], { env: { ...process.env, ...env, MOCK_CHILD: "1" }, stdio: ["pipe", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  return { url: `http://127.0.0.1:${env.PORT}`, stop: () => child.kill() };
}

export function startBrowser() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--host-resolver-rules=MAP chat.lan 127.0.0.1", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"],
  });
}

/** A page with its own storage; its errors are added to `troubles`. */
export async function openPage(browser, { width = 1280, height = 800, dark = false, phone = false, troubles = [], before } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width, height, deviceScaleFactor: phone ? 2 : 1, hasTouch: phone, isMobile: phone });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  page.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) troubles.push(`console: ${message.text()}`);
  });
  if (before) await page.evaluateOnNewDocument(before);
  await page.evaluateOnNewDocument(() => {
    window.__violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  return page;
}

export const at = (id) => `[data-testid="${id}"]`;

export async function say(page, text) {
  await page.waitForSelector(at("composer:input"));
  await page.type(at("composer:input"), text);
  await page.keyboard.press("Enter");
}

/**
 * Clicks an element when it exists, is enabled and does not move: a drawer that slides in has no fixed position to
 * click at.
 */
export async function press(page, selector) {
  await page.locator(selector).setTimeout(60_000).click();
}

export async function textOf(page, id) {
  return page.$eval(at(id), (element) => element.textContent);
}

const AXE = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** The findings of an accessibility audit, one line each. */
export async function audit(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    // An element that is fading in has no final contrast.
    const moving = document.getAnimations().filter((one) => one.effect?.getTiming().iterations !== Infinity);
    await Promise.allSettled(moving.map((one) => one.finished));
    const { violations } = await window.axe.run(document, { iframes: false });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
  });
}

export async function until(what, check, timeoutMs = 60_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`timed out waiting for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
