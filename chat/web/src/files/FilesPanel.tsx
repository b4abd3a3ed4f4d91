// A chat's files, one folder at a time: open, download, upload by drag or button, delete. The list is refreshed after
// each tool call.
import { RefreshCw, Upload } from "lucide-react";
import { useRef, useState } from "react";
import type { FileEntry } from "../api/types";
import { PanelFrame } from "../app/PanelFrame";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { IconButton } from "../ui/IconButton";
import { Crumbs } from "./Crumbs";
import { useDrop } from "./drop";
import { FileRow } from "./FileRow";
import { FileViewer } from "./FileViewer";
import { useFolder } from "./folder";
import { addUploads, useUploads } from "./queue";
import { Uploads } from "./Uploads";
import "./files.css";

type Props = { chatId: string; begun: boolean; turn: number };

export function FilesPanel({ chatId, begun, turn }: Props) {
  const [path, setPath] = useState("");
  const [shown, setShown] = useState<FileEntry | null>(null);
  const finished = useUploads((state) => state.finished);
  const folder = useFolder(chatId, path, begun, turn + finished);
  const drop = useDrop((files) => addUploads(chatId, path, files));
  const picker = useRef<HTMLInputElement>(null);

  const open = (entry: FileEntry) => (entry.type === "directory" ? setPath(entry.path) : setShown(entry));
  return (
    <PanelFrame
      title={texts.files.title}
      testId="files:panel"
      tools={
        <>
          <IconButton label={texts.refresh} onClick={folder.reload} disabled={!begun}><RefreshCw /></IconButton>
          <IconButton label={texts.files.upload} onClick={() => picker.current?.click()} disabled={!begun}><Upload /></IconButton>
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label={texts.files.upload}
            data-testid="files:upload"
            onChange={(event) => {
              addUploads(chatId, path, [...(event.target.files ?? [])]);
              event.target.value = "";
            }}
          />
        </>
      }
    >
      <div className={`panel-body files ${drop.over ? "files-over" : ""}`} {...(begun ? drop.handlers : {})}>
        {shown ? (
          <FileViewer key={shown.path} chatId={chatId} entry={shown} turn={turn} onBack={() => setShown(null)} />
        ) : (
          <>
            <Crumbs path={path} onGo={setPath} />
            <Uploads chatId={chatId} />
            {folder.error ? <p className="note note-bad files-note" role="alert">{folder.error}</p> : null}
            <ul className="files-list" aria-busy={folder.loading}>
              {folder.entries.map((entry) => (
                <FileRow key={entry.path} chatId={chatId} entry={entry} onOpen={open} onGone={folder.reload} />
              ))}
            </ul>
            {folder.nextCursor ? <Button className="side-more" onClick={folder.more}>{texts.more}</Button> : null}
            {folder.entries.length === 0 && !folder.error ? (
              <p className="panel-note">{!begun ? texts.files.noChat : folder.loading ? texts.loading : folder.sandbox ? texts.files.empty : texts.files.none}</p>
            ) : null}
          </>
        )}
        {drop.over ? <p className="files-drop">{texts.files.drop}</p> : null}
      </div>
    </PanelFrame>
  );
}
