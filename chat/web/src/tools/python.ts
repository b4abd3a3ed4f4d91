// The output of `python` as its card reads it. All of it comes from inside a container, so nothing of it is trusted: only
// images that a browser shows without running anything, the texts of a table, and text.
import { isRecord } from "../api/error";
import type { BashOutput } from "./part";

export type PythonOutput = {
  status: string;
  /** The two streams, in the form of a command's output. */
  streams: BashOutput;
  displays: Shown[];
  result: Shown | null;
  error: CodeError | null;
  restarted: boolean;
  omittedDisplays: number;
};

/** One value, in the best format that it has. */
export type Shown =
  | { kind: "image"; source: string; alt: string }
  | { kind: "table"; table: Table }
  | { kind: "markdown"; text: string }
  | { kind: "text"; text: string };

export type Table = { head: string[][]; rows: string[][]; omittedRows: number };

export type CodeError = { name: string; value: string; traceback: string };

export const PYTHON_RUNNING = "running";

const MAX_ROWS = 200;
const MAX_COLUMNS = 50;
/** Start of a tag, in lower case. */
const TAG = /^<(\/?)([a-z][a-z0-9]*)/;
const MAX_TAG_CHARS = 16;
const OF_TABLES = new Set(["table", "thead", "tbody", "tfoot", "tr", "th", "td"]);
const WITHOUT_TEXT = new Set(["script", "style"]);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export function pythonOutput(output: unknown): PythonOutput | null {
  if (!isRecord(output)) return null;
  const status = text(output["status"]) || PYTHON_RUNNING;
  const displays = Array.isArray(output["displays"]) ? output["displays"] : [];
  return {
    status,
    streams: {
      stdout: text(output["stdout"]),
      stderr: text(output["stderr"]),
      exitCode: 0,
      stdoutTruncatedChars: natural(output["stdoutTruncatedChars"]),
      stderrTruncatedChars: natural(output["stderrTruncatedChars"]),
    },
    displays: displays.map(shown).filter((one) => one !== null),
    result: shown(output["result"]),
    error: codeError(output["error"]),
    restarted: output["restarted"] === true,
    omittedDisplays: natural(output["omittedDisplays"]),
  };
}

function codeError(value: unknown): CodeError | null {
  if (!isRecord(value)) return null;
  return { name: text(value["name"]), value: text(value["value"]), traceback: text(value["traceback"]) };
}

export function shown(value: unknown): Shown | null {
  if (!isRecord(value)) return null;
  const plain = text(value["text"]);
  const png = text(value["png"]).replace(/\s/g, "");
  if (BASE64.test(png)) return { kind: "image", source: `data:image/png;base64,${png}`, alt: plain };
  const svg = text(value["svg"]);
  // As the source of an image, SVG runs no scripts and loads nothing.
  if (svg) return { kind: "image", source: `data:image/svg+xml;base64,${base64Of(svg)}`, alt: plain };
  const table = tableOf(text(value["html"]));
  if (table) return { kind: "table", table };
  const markdown = text(value["markdown"]);
  if (markdown) return { kind: "markdown", text: markdown };
  if (plain) return { kind: "text", text: plain };
  if (value["json"] !== undefined) return { kind: "text", text: JSON.stringify(value["json"], null, 2) };
  const html = text(value["html"]);
  return html ? { kind: "text", text: textOf(html) } : null;
}

/** The first table of a page, as text. A parsed document runs no scripts and loads nothing. */
function tableOf(html: string): Table | null {
  if (!/<table/i.test(html)) return null;
  const table = parsed(html).querySelector("table");
  if (!table) return null;
  const rows = [...table.querySelectorAll("tr")];
  const isHead = (row: Element) => row.closest("thead") !== null || [...row.children].every((cell) => cell.tagName === "TH");
  const cells = (row: Element) => [...row.children].slice(0, MAX_COLUMNS).map((cell) => cell.textContent.trim());
  const body = rows.filter((row) => !isHead(row));
  return {
    head: rows.filter(isHead).slice(0, MAX_ROWS).map(cells),
    rows: body.slice(0, MAX_ROWS).map(cells),
    omittedRows: Math.max(0, body.length - MAX_ROWS),
  };
}

function base64Of(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function textOf(html: string): string {
  return parsed(html).body.textContent.trim();
}

function parsed(html: string): Document {
  return new DOMParser().parseFromString(bare(html), "text/html");
}

/**
 * The texts and the tags of tables, without attributes. The rest would do nothing in a parsed document, but the browser would
 * report each style and each script of it as refused by the page's policy.
 */
export function bare(html: string): string {
  const lower = html.toLowerCase();
  let kept = "";
  let at = 0;
  for (;;) {
    const open = html.indexOf("<", at);
    if (open < 0) return kept + html.slice(at);
    kept += html.slice(at, open);
    const [, slash = "", name = ""] = TAG.exec(lower.slice(open, open + MAX_TAG_CHARS)) ?? [];
    const isMarkup = name !== "" || lower.startsWith("<!", open);
    if (!isMarkup) {
      kept += "&lt;";
      at = open + 1;
      continue;
    }
    const end = html.indexOf(">", open);
    const next = !slash && WITHOUT_TEXT.has(name) ? lower.indexOf(`</${name}`, open) : end + 1;
    if (end < 0 || next < 0) return kept;
    if (OF_TABLES.has(name)) kept += `<${slash}${name}>`;
    at = next;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function natural(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.floor(value) : 0;
}
