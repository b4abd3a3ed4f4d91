import { toJsxRuntime } from "hast-util-to-jsx-runtime";
import { common, createLowlight } from "lowlight";
import type { ReactNode } from "react";
import { Fragment, jsx, jsxs } from "react/jsx-runtime";

const lowlight = createLowlight(common);

/** Longer code is not highlighted, because highlighting it would block the page. */
const MAX_CHARS = 60_000;

/** Code in an unknown language is not highlighted. */
export function highlight(code: string, language: string): ReactNode {
  const name = language.toLowerCase();
  if (code.length > MAX_CHARS || !lowlight.registered(name)) return code;
  return toJsxRuntime(lowlight.highlight(name, code), { Fragment, jsx, jsxs }) as ReactNode;
}
