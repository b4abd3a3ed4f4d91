import { ArrowLeft, Download } from "lucide-react";
import { useEffect, useState } from "react";
import { sentenceOf } from "../api/error";
import type { FileEntry } from "../api/types";
import { CodeText } from "../markdown/CodeText";
import { texts } from "../texts";
import { extension } from "../tools/FileCards";
import { complain } from "../ui/announce";
import { CopyButton } from "../ui/CopyButton";
import { bytes } from "../ui/format";
import { IconButton } from "../ui/IconButton";
import { plainName } from "../ui/names";
import { type Content, MAX_TEXT_BYTES, readContent } from "./content";
import { download } from "./download";

type Props = { chatId: string; entry: FileEntry; turn: number; onBack: () => void };

export function FileViewer({ chatId, entry, turn, onBack }: Props) {
  const [content, setContent] = useState<Content | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    let url: string | null = null;
    readContent(chatId, entry.path, entry.size, abort.signal).then(
      (read) => {
        if (read.kind === "image") url = read.url;
        if (abort.signal.aborted) {
          if (url) URL.revokeObjectURL(url);
        } else {
          setContent(read);
          setError(null);
        }
      },
      (thrown: unknown) => {
        if (!abort.signal.aborted) setError(sentenceOf(thrown));
      },
    );
    return () => {
      abort.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [chatId, entry.path, entry.size, turn]);

  const fetchIt = () => void download(chatId, entry).catch((thrown: unknown) => complain(sentenceOf(thrown)));
  return (
    <div className="viewer">
      <header className="viewer-head">
        <IconButton label={texts.files.back} onClick={onBack} autoFocus><ArrowLeft /></IconButton>
        <bdi className="clip mono" title={plainName(entry.path)}>{plainName(entry.name)}</bdi>
        {entry.size === null ? null : <span className="file-meta">{bytes(entry.size)}</span>}
        {content?.kind === "text" ? <CopyButton text={content.text} label={texts.tools.copyContent} /> : null}
        <IconButton label={texts.files.download} onClick={fetchIt}><Download /></IconButton>
      </header>
      {error ? <p className="note note-bad files-note" role="alert">{error}</p> : null}
      {content ? <ContentView content={content} entry={entry} /> : error ? null : <p className="panel-note">{texts.loading}</p>}
    </div>
  );
}

function ContentView({ content, entry }: { content: Content; entry: FileEntry }) {
  switch (content.kind) {
    case "image": return <Picture url={content.url} name={plainName(entry.name)} />;
    case "bigImage": return <p className="panel-note">{texts.files.bigImage}</p>;
    case "binary": return <p className="panel-note">{texts.files.binary}</p>;
    case "text":
      return (
        <>
          {content.clipped ? <p className="note note-warn files-note">{texts.files.clip(bytes(MAX_TEXT_BYTES), bytes(entry.size ?? 0))}</p> : null}
          <div className="viewer-text" tabIndex={0} role="group" aria-label={plainName(entry.name)}>
            <CodeText code={content.text} language={extension(entry.name)} />
          </div>
        </>
      );
  }
}

/** A file with the name of an image may not be one. */
function Picture({ url, name }: { url: string; name: string }) {
  const [broken, setBroken] = useState(false);
  if (broken) return <p className="panel-note" data-testid="file:broken">{texts.files.broken}</p>;
  return <div className="viewer-image"><img src={url} alt={name} onError={() => setBroken(true)} /></div>;
}
