//! Searches the names of files and directories.

use agent_protocol::fault::Kind;
use agent_protocol::v1;

use super::{Search, globs};
use crate::files::info;
use crate::files::path::{FilePath, invalid};
use crate::files::workspace::Workspace;

impl Workspace {
    /// Returns the files and directories whose path, relative to `path`, matches the pattern.
    pub(crate) fn glob(&self, path: &FilePath, request: &v1::GlobRequest) -> Result<v1::GlobReply, Kind> {
        if request.pattern.is_empty() {
            return Err(invalid("pattern", "must not be empty"));
        }
        let pattern = globs("pattern", std::slice::from_ref(&request.pattern))?;
        let exclude = globs("exclude", &request.exclude)?;
        let mut search = Search::new(self, path, request.max_results, request.include_ignored)?;
        search.exclude = exclude;
        let mut reply = v1::GlobReply::default();
        let mut bytes = 0;
        while let Some(entry) = search.next() {
            if !pattern.is_match(search.relative_to_start(&entry)) {
                continue;
            }
            if let Ok(info) = info::of_entry(&entry.dir, &entry.name, &entry.path) {
                bytes += info.path.len() + info.target.as_ref().map_or(0, bytes::Bytes::len);
                reply.entries.push(info);
            }
            if !search.may_continue(reply.entries.len(), bytes) {
                break;
            }
        }
        reply.cut = search.cut(reply.entries.len(), bytes).into();
        reply.entries.truncate(search.max_results);
        Ok(reply)
    }
}
