//! Changes of resources.
//!
//! A file is often replaced by another one, so its directory is watched. The watch does not use the sandbox: it does not
//! wake it, and does not prevent parking.

use futures::StreamExt;
use sandbox_api::files::WatchRecord;
use sandbox_client::FileChanges;

use crate::Error;
use crate::error::is_gone;
use crate::resources::parts_of;
use crate::toolbox::Toolbox;

/// A watch of one file.
#[derive(Debug)]
pub struct ResourceWatch {
    /// Name of the file in its directory.
    name: String,
    /// Absent after the end.
    changes: Option<FileChanges>,
}

impl Toolbox {
    /// Watches a file, which need not exist yet. Every later change is reported. `None` if there is no such sandbox. The
    /// watch of a parked sandbox has ended already.
    pub async fn watch_resource(&self, uri: &str) -> Result<Option<ResourceWatch>, Error> {
        let Some((handle, path)) = parts_of(uri) else { return Ok(None) };
        let Some((directory, name)) = split(&path) else { return Ok(None) };
        let sandbox = match self.of_handle(&handle).await {
            Err(Error::UnknownSandbox { .. }) => return Ok(None),
            found => found?,
        };
        let mut changes = match self.client.watch_files_passively(&sandbox, directory).await {
            Err(error) if is_gone(&error) => {
                self.forget(&sandbox);
                return Ok(None);
            }
            watched => watched.map_err(Error::about(&path))?,
        };
        // The first record says whether the watch has begun.
        let is_ready = matches!(changes.next().await.transpose()?, Some(WatchRecord::Ready));
        let changes = is_ready.then_some(changes);
        Ok(Some(ResourceWatch { name: name.to_owned(), changes }))
    }
}

impl ResourceWatch {
    /// Whether changes are still reported.
    pub fn is_active(&self) -> bool {
        self.changes.is_some()
    }

    /// Waits for a change. `None` if the watch has ended: the sandbox was parked or deleted, the directory is gone, or
    /// the daemon cannot be reached. Loses nothing if it is cancelled.
    pub async fn changed(&mut self) -> Option<()> {
        while let Some(Ok(record)) = self.changes.as_mut()?.next().await {
            match record {
                WatchRecord::Ready | WatchRecord::Heartbeat => {}
                WatchRecord::Overflow => return Some(()),
                WatchRecord::Created { path, .. }
                | WatchRecord::Modified { path, .. }
                | WatchRecord::Deleted { path, .. } => {
                    if self.is_at(&path) {
                        return Some(());
                    }
                }
                WatchRecord::Moved { path, from, .. } => {
                    if self.is_at(&path) || self.is_at(&from) {
                        return Some(());
                    }
                }
                WatchRecord::Gone | WatchRecord::Lost => break,
            }
        }
        self.changes = None;
        None
    }

    /// Whether the path is the file. All paths of the watch are in its directory.
    fn is_at(&self, path: &str) -> bool {
        path.rsplit('/').next() == Some(&self.name)
    }
}

/// Directory and name of a file.
fn split(path: &str) -> Option<(&str, &str)> {
    let (directory, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(found) => found,
        None => ("", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((directory, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_directory_and_a_name() {
        assert_eq!(split("a.txt"), Some(("", "a.txt")));
        assert_eq!(split("src/a b/c"), Some(("src/a b", "c")));
        assert_eq!(split("/etc/hosts"), Some(("/etc", "hosts")));
        assert_eq!(split("/a"), Some(("/", "a")));
        for other in ["src/", ".", "src/..", "/"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
