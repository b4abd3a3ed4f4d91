// Highlighted code. The highlighter is large, so it is loaded when the first code appears; until then the code is
// shown without colours. It returns a tree, not HTML, so nothing in the code can become markup.
import { type ReactNode, useEffect, useState } from "react";
import { plainText } from "../ui/names";

type Highlight = (code: string, language: string) => ReactNode;

let highlight: Highlight | null = null;
let loading: Promise<void> | null = null;

function load(): Promise<void> {
  loading ??= import("./highlight").then(
    (module) => {
      highlight = module.highlight;
    },
    () => {
      loading = null;
    },
  );
  return loading;
}

export function CodeText({ code: raw, language }: { code: string; language: string }) {
  const code = plainText(raw);
  const [ready, setReady] = useState(highlight !== null);
  const wanted = language !== "";
  useEffect(() => {
    if (ready || !wanted) return;
    let here = true;
    void load().then(() => here && setReady(highlight !== null));
    return () => {
      here = false;
    };
  }, [ready, wanted]);
  return (
    <pre className="code">
      <code>{ready && wanted && highlight ? highlight(code, language) : code}</code>
    </pre>
  );
}
