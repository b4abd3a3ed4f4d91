// The entries of one folder, page by page. A newer request takes precedence over an older one with a late response.
import { useCallback, useEffect, useRef, useState } from "react";
import { sentenceOf } from "../api/error";
import { listFiles } from "../api/files";
import type { FileEntry } from "../api/types";
import { isAway, suspect, useServer } from "../server/store";

type Folder = {
  entries: FileEntry[];
  nextCursor: string | null;
  /** False if the chat has no sandbox yet. */
  sandbox: boolean;
  loading: boolean;
  error: string | null;
};

const EMPTY: Folder = { entries: [], nextCursor: null, sandbox: true, loading: true, error: null };

export function useFolder(chatId: string, path: string, begun: boolean, turn: number) {
  const [folder, setFolder] = useState<Folder>(EMPTY);
  const look = useRef(0);
  const away = useServer(isAway);

  const load = useCallback(
    async (cursor: string | null) => {
      const mine = (look.current += 1);
      try {
        const page = await listFiles(chatId, path, cursor);
        if (mine !== look.current) return;
        setFolder((before) => ({
          entries: cursor ? [...before.entries, ...page.entries] : page.entries,
          nextCursor: page.nextCursor,
          sandbox: page.sandbox !== false,
          loading: false,
          error: null,
        }));
      } catch (thrown) {
        suspect(thrown);
        if (mine === look.current) setFolder((before) => ({ ...before, loading: false, error: sentenceOf(thrown) }));
      }
    },
    [chatId, path],
  );

  useEffect(() => {
    const looks = look;
    return () => {
      looks.current += 1;
      setFolder(EMPTY);
    };
  }, [chatId, path]);
  // Also when the server or its tools recover.
  useEffect(() => {
    if (begun) void load(null);
  }, [load, begun, turn, away]);

  const reload = useCallback(() => void load(null), [load]);
  const { nextCursor } = folder;
  const more = useCallback(() => void load(nextCursor), [load, nextCursor]);
  return { ...folder, entries: foldersFirst(folder.entries), reload, more };
}

export function foldersFirst(entries: FileEntry[]): FileEntry[] {
  const rank = (entry: FileEntry) => (entry.type === "directory" ? 0 : 1);
  return entries.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
