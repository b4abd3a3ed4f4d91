//! The directory that a call reads: the workspace, or the directory with output files.

use std::path::PathBuf;
use std::sync::Arc;

use agent_protocol::v1;
use bytes::Bytes;

use crate::files::path::to_bytes;
use crate::files::workspace::Workspace;

/// A directory, and how paths in it are named to the caller.
pub(super) struct ReadRoot {
    pub(super) workspace: Arc<Workspace>,
    /// Whether paths are absolute. Those in the workspace are relative to it.
    is_outside: bool,
}

impl ReadRoot {
    pub(super) fn workspace(workspace: &Arc<Workspace>) -> Self {
        Self { workspace: Arc::clone(workspace), is_outside: false }
    }

    pub(super) fn outside_workspace(directory: &Arc<Workspace>) -> Self {
        Self { workspace: Arc::clone(directory), is_outside: true }
    }

    pub(super) fn name(&self, relative: Bytes) -> Bytes {
        if !self.is_outside {
            return relative;
        }
        let path: PathBuf = self.workspace.absolute(&relative);
        to_bytes(&path)
    }

    pub(super) fn name_info(&self, info: v1::FileInfo) -> v1::FileInfo {
        v1::FileInfo { path: self.name(info.path), ..info }
    }
}
