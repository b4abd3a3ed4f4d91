// A model's text as markdown. It is untrusted. HTML is not rendered, and URLs must pass two lists of safe schemes.
// Images become links, because loading an image reveals the user to its server.
import { memo, useMemo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import rehypeSanitize from "rehype-sanitize";
import remarkGfm from "remark-gfm";
import { texts } from "../texts";
import { blocksOf } from "./blocks";
import { CodeBlock } from "./CodeBlock";
import "./markdown.css";

/** Parsing this much text takes some tens of milliseconds. */
const MAX_WHOLE_CHARS = 10_000;

export function Markdown({ text, growing }: { text: string; growing: boolean }) {
  // While the text grows, only its last block changes and is parsed again. In the finished text, a block may also
  // refer to a definition in another block. A long text is not parsed a second time for that.
  const inBlocks = growing || text.length > MAX_WHOLE_CHARS;
  const blocks = useMemo(() => (inBlocks ? blocksOf(text) : [text]), [text, inBlocks]);
  return (
    <div className="markdown">
      {blocks.map((block, index) => (
        <MarkdownBlock key={index} text={block} />
      ))}
    </div>
  );
}

const MarkdownBlock = memo(function MarkdownBlock({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={[remarkGfm]} rehypePlugins={[rehypeSanitize]} skipHtml components={components}>
      {text}
    </ReactMarkdown>
  );
});

const components: Components = {
  a: ({ href, children }) => (href ? <Outward href={href}>{children}</Outward> : <>{children}</>),
  img: ({ src, alt }) => (typeof src === "string" && src ? <Outward href={src}>{texts.message.image(alt ?? "")}</Outward> : null),
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const language = /language-([\w+#.-]+)/.exec(className ?? "")?.[1];
    const code = typeof children === "string" ? children : "";
    if (language === undefined && !code.includes("\n")) return <code className="inline-code">{children}</code>;
    return <CodeBlock code={code.replace(/\n$/, "")} language={language ?? ""} />;
  },
  table: ({ children }) => (
    <div className="markdown-table" tabIndex={0} role="group">
      <table>{children}</table>
    </div>
  ),
};

function Outward({ href, children }: { href: string; children: React.ReactNode }) {
  return <a href={href} target="_blank" rel="noopener noreferrer">{children}</a>;
}
