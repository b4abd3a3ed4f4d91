// Serves dist/ with the policy that the chat server sends.
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";

const DIST = new URL("../../dist", import.meta.url).pathname;
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src http: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2" };

export async function page(response, url) {
  const routed = url.pathname === "/" || /^\/c\/[A-Za-z0-9_-]{1,64}$/.test(url.pathname);
  const path = routed ? "/index.html" : normalize(url.pathname);
  try {
    const body = await readFile(join(DIST, path));
    response.writeHead(200, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
      "content-security-policy": POLICY,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    response.end(body);
  } catch {
    response.writeHead(404).end("not found");
  }
}
