//! Lists directories, a page at a time.

use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;

use super::info;
use super::path::FilePath;
use super::walk::Walk;
use super::workspace::Workspace;
use crate::limits::{LIST_PAGE_BYTES, MESSAGE_BYTES};

/// Number of names kept beside those of a page: the end of the page before, and one more to know whether more follow.
const KEPT_BESIDE: usize = 2;

/// Size of an entry beside its path and target.
const ENTRY_BYTES: usize = 96;

impl Workspace {
    /// Lists the entries of the directory at `path` and of `depth - 1` levels beneath it. Returns at most `limit`
    /// entries after `after`, in messages of limited size.
    pub(crate) fn list(
        &self,
        path: &FilePath,
        depth: usize,
        limit: usize,
        after: Option<PathBuf>,
    ) -> Result<Vec<v1::Listed>, Kind> {
        let fail = |error: std::io::Error| self.dir_lookup_fault(path, &error);
        let dir = self.open_dir(path.as_path()).map_err(fail)?;
        let mut walk = Walk::new(dir, path.relative.clone(), limit + KEPT_BESIDE, after).map_err(fail)?;
        let mut page = Page::default();
        while let Some(entry) = walk.next() {
            if entry.is_dir && entry.depth < depth {
                walk.enter(&entry);
            }
            if entry.seen {
                continue;
            }
            if page.is_full(limit) {
                page.more = true;
                break;
            }
            // An entry that was removed meanwhile is skipped.
            if let Ok(info) = info::of_entry(&entry.dir, &entry.name, Path::new(&entry.path)) {
                page.add(info);
            }
        }
        // If not all names of a directory were kept, the walk ended early.
        page.more |= walk.ended_early();
        Ok(page.into_messages())
    }
}

#[derive(Debug, Default)]
struct Page {
    messages: Vec<v1::Listed>,
    open: Vec<v1::FileInfo>,
    open_bytes: usize,
    entries: usize,
    bytes: usize,
    more: bool,
}

impl Page {
    fn is_full(&self, limit: usize) -> bool {
        self.entries >= limit || self.bytes >= LIST_PAGE_BYTES
    }

    fn add(&mut self, info: v1::FileInfo) {
        let bytes = ENTRY_BYTES + info.path.len() + info.target.as_ref().map_or(0, bytes::Bytes::len);
        if self.open_bytes + bytes > MESSAGE_BYTES {
            self.close(false);
        }
        self.entries += 1;
        self.bytes += bytes;
        self.open_bytes += bytes;
        self.open.push(info);
    }

    fn close(&mut self, more: bool) {
        self.open_bytes = 0;
        self.messages.push(v1::Listed { entries: std::mem::take(&mut self.open), more });
    }

    fn into_messages(mut self) -> Vec<v1::Listed> {
        self.close(self.more);
        self.messages
    }
}
