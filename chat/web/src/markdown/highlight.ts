import { toJsxRuntime } from "hast-util-to-jsx-runtime";
import { common, createLowlight } from "lowlight";
import type { ReactNode } from "react";
import { Fragment, jsx, jsxs } from "react/jsx-runtime";

const lowlight = createLowlight(common);

/** Longer code is left plain: colouring it would hold up the page. */
const MAX_CHARS = 60_000;

/** A language nobody knows leaves the code as it is. */
export function highlight(code: string, language: string): ReactNode {
  const name = language.toLowerCase();
  if (code.length > MAX_CHARS || !lowlight.registered(name)) return code;
  return toJsxRuntime(lowlight.highlight(name, code), { Fragment, jsx, jsxs }) as ReactNode;
}
