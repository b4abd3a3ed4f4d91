// Writes dist/THIRD-PARTY-NOTICES.txt: the packages in the page and their licences. Vite finds the packages of the
// scripts; packages of style sheets (the font) are found here. The build fails if a package's licence is not on the
// list or has no text.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";

/** Each licence permits distribution in a program under MIT, with its notice. */
const ALLOWED = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Apache-2.0", "OFL-1.1"]);

/** Packages without the text of their licence, and the package of the same repository that has it. */
const SAME_AS: Record<string, string> = { "@ai-sdk/provider-utils": "ai" };

/** Written by Vite and removed again by this plugin. */
export const FOUND = "licences.json";
const NOTICES = "THIRD-PARTY-NOTICES.txt";

export type Package = { name: string; version: string; identifier?: string; text?: string };

export function notices(): Plugin {
  return {
    name: "notices",
    apply: "build",
    enforce: "post",
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        const found = bundle[FOUND];
        if (found?.type !== "asset") this.error(`Vite wrote no ${FOUND}`);
        const packages = JSON.parse(String(found.source)) as Package[];
        const assets = Object.values(bundle).flatMap((file) => (file.type === "asset" ? file.originalFileNames : []));
        packages.push(...packagesOf(assets));
        packages.forEach((one) => borrow(one, packages));
        const wrong = packages.flatMap(objectionsTo);
        if (wrong.length > 0) this.error(wrong.join("\n"));
        // eslint-disable-next-line @typescript-eslint/no-dynamic-delete -- removes a file from the bundle
        delete bundle[FOUND];
        this.emitFile({ type: "asset", fileName: NOTICES, source: textOf(packages) });
      },
    },
  };
}

function borrow(one: Package, packages: Package[]): void {
  const other = packages.find(({ name }) => name === SAME_AS[one.name]);
  if (!one.text && other?.text && other.identifier === one.identifier) one.text = other.text;
}

export function objectionsTo({ name, identifier, text }: Package): string[] {
  const known = identifier !== undefined && identifier.replace(/[()]/g, "").split(" OR ").some((one) => ALLOWED.has(one));
  return [
    ...(known ? [] : [`${name} has the licence ${identifier ?? "(none)"}, which notices.ts does not list`]),
    ...(text ? [] : [`${name} has no text of its licence`]),
  ];
}

/** The packages of files that are not scripts. */
function packagesOf(files: string[]): Package[] {
  const folders = files.filter((file) => file.includes("node_modules/")).map((file) => folderOf(dirname(file)));
  return [...new Set(folders)].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { name: string; version: string; license?: string };
    const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    return { name, version, ...(license ? { identifier: license } : {}), ...(licence ? { text: readFileSync(join(folder, licence), "utf8").trim() } : {}) };
  });
}

function folderOf(folder: string): string {
  return existsSync(join(folder, "package.json")) ? folder : folderOf(dirname(folder));
}

/** ASCII is unchanged; a byte order mark at the beginning declares the rest as UTF-8. */
export function textOf(packages: Package[]): string {
  const sorted = packages.toSorted((a, b) => a.name.localeCompare(b.name, "en"));
  const head = `The chat's page carries ${sorted.length} packages of others. Each stands here with its licence.\n`;
  const list = sorted.map(({ name, version, identifier }) => `  ${name} ${version} (${identifier ?? ""})\n`).join("");
  const bodies = sorted.map(({ name, version, text }) => `\n${"-".repeat(80)}\n${name} ${version}\n\n${text ?? ""}\n`);
  return `\uFEFF${head}\n${list}${bodies.join("")}`;
}
