import { Download, File, FileQuestion, Folder, Link2, Trash2 } from "lucide-react";
import { useState } from "react";
import { sentenceOf } from "../api/error";
import { deleteFile } from "../api/files";
import type { FileEntry } from "../api/types";
import { texts } from "../texts";
import { complain } from "../ui/announce";
import { Confirm } from "../ui/Confirm";
import { ago, bytes } from "../ui/format";
import { plainName } from "../ui/names";
import { Menu } from "../ui/Menu";
import { download } from "./download";

type Props = { chatId: string; entry: FileEntry; onOpen: (entry: FileEntry) => void; onGone: () => void };

const ICONS = { file: <File />, directory: <Folder />, link: <Link2 />, other: <FileQuestion /> };

export function FileRow({ chatId, entry, onOpen, onGone }: Props) {
  const [deleting, setDeleting] = useState(false);
  const name = plainName(entry.name);
  const isFolder = entry.type === "directory";
  const fetchIt = () => void download(chatId, entry).catch((thrown: unknown) => complain(sentenceOf(thrown)));
  const remove = async () => {
    await deleteFile(chatId, entry.path);
    onGone();
  };
  const canOpen = isFolder || entry.type === "file";
  return (
    <li className={`file file-${entry.type}`} data-testid="file:row" data-path={entry.path}>
      <button type="button" className="file-open" onClick={() => onOpen(entry)} disabled={!canOpen}>
        {ICONS[entry.type]}
        <bdi className="clip" title={name}>{name}</bdi>
        <span className="file-meta">{meta(entry)}</span>
      </button>
      <Menu
        label={texts.files.actions(name)}
        items={[
          ...(entry.type === "file" ? [{ label: texts.files.download, icon: <Download />, run: fetchIt }] : []),
          { label: texts.files.delete, icon: <Trash2 />, run: () => setDeleting(true), danger: true },
        ]}
      />
      {deleting ? (
        <Confirm title={texts.files.deleteTitle} text={texts.files.deleteText(name, isFolder)} action={texts.files.delete} run={remove} onClose={() => setDeleting(false)} />
      ) : null}
    </li>
  );
}

function meta(entry: FileEntry): string {
  if (entry.type === "link") return texts.files.link;
  if (entry.type === "other") return texts.files.other;
  if (entry.type === "file" && entry.size !== null) return bytes(entry.size);
  return entry.modifiedAt ? ago(entry.modifiedAt) : "";
}
