//! Directory operations with bash scripts, because the API has none.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;

use super::Vercel;
use crate::provider::command::Environment;
use crate::provider::{Command, Error, Event, FileEntry, FileKind, FileList, Result, SandboxId};

const LIST: &str = include_str!("list.sh");
const REMOVE: &str = include_str!("remove.sh");

/// Exit code of both scripts if nothing exists at the path.
const NO_SUCH_PATH: i32 = 44;

/// Deadline of either script.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of entries of a page.
const PAGE: usize = 500;

/// Maximum size of a page: its number of entries with the longest names, and some reserve.
const MAX_PAGE_BYTES: usize = PAGE * 512;

impl Vercel {
    /// `cursor` is the index of the first entry.
    pub(super) async fn list_page(
        &self,
        sandbox: &SandboxId,
        path: &str,
        cursor: Option<&str>,
    ) -> Result<FileList> {
        let from: usize = match cursor.map(str::parse) {
            None => 0,
            Some(Ok(from)) => from,
            Some(Err(_)) => {
                return Err(Error::Refused { message: "`cursor` is not from this list".into() });
            }
        };
        // One entry more than a page shows whether there is another page.
        let with = self.around(path).with("SANDBOX_FROM", from.to_string());
        let with = with.with("SANDBOX_COUNT", (PAGE + 1).to_string());
        let output = self.script(sandbox, path, LIST, with).await?;
        let mut entries: Vec<FileEntry> =
            output.split(|byte| *byte == 0).filter(|line| !line.is_empty()).filter_map(entry).collect();
        let next_cursor = (entries.len() > PAGE).then(|| (from + PAGE).to_string());
        entries.truncate(PAGE);
        Ok(FileList { entries, next_cursor })
    }

    pub(super) async fn remove_all(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        self.script(sandbox, path, REMOVE, self.around(path)).await.map(drop)
    }

    fn around(&self, path: &str) -> Environment {
        let path = if path.is_empty() { "." } else { path };
        Environment::default().with("SANDBOX_PATH", path)
    }

    async fn script(
        &self,
        sandbox: &SandboxId,
        path: &str,
        script: &str,
        environment: Environment,
    ) -> Result<Vec<u8>> {
        if path.contains('\0') {
            return Err(Error::NoFile { path: path.to_owned() });
        }
        let command = Command { environment, ..Command::new(script, LIMIT) };
        let mut running = self.run_script(sandbox, command).await?;
        let (mut output, mut complaint) = (Vec::new(), Vec::new());
        while let Some(event) = running.next().await {
            match event? {
                Event::Stdout(bytes) if output.len() + bytes.len() <= MAX_PAGE_BYTES => output.extend(bytes),
                Event::Stderr(bytes) if complaint.len() + bytes.len() <= MAX_PAGE_BYTES => {
                    complaint.extend(bytes);
                }
                Event::Ended(end) if end.exit_code == 0 => return Ok(output),
                Event::Ended(end) if end.exit_code == NO_SUCH_PATH => {
                    return Err(Error::NoFile { path: path.to_owned() });
                }
                Event::Ended(_) => {
                    let message = String::from_utf8_lossy(&complaint).trim().to_owned();
                    return Err(Error::Refused { message });
                }
                Event::Started | Event::Heartbeat | Event::Missed { .. } => {}
                Event::Stdout(_) | Event::Stderr(_) => {}
            }
        }
        Err(Error::Broken("the command's output ended before the command did".into()))
    }
}

/// `mode in hexadecimal, length, seconds since 1970, name`
fn entry(line: &[u8]) -> Option<FileEntry> {
    let line = String::from_utf8_lossy(line);
    let mut parts = line.splitn(4, ' ');
    let mode = u32::from_str_radix(parts.next()?, 16).ok()?;
    let bytes: u64 = parts.next()?.parse().ok()?;
    let changed: i64 = parts.next()?.parse().ok()?;
    let name = parts.next()?.to_owned();
    // inode(7), "The file type and mode".
    let kind = match mode & 0o170_000 {
        0o100_000 => FileKind::File,
        0o040_000 => FileKind::Directory,
        0o120_000 => FileKind::Link,
        _ => FileKind::Other,
    };
    Some(FileEntry {
        name,
        kind,
        bytes: (kind == FileKind::File).then_some(bytes),
        modified_at: Timestamp::from_second(changed).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_values_of_stat() {
        let file = entry(b"81a4 12 1700000000 a b\nc").unwrap();
        assert_eq!((file.name.as_str(), file.kind, file.bytes), ("a b\nc", FileKind::File, Some(12)));
        assert_eq!(file.modified_at.unwrap().as_second(), 1_700_000_000);
        let directory = entry(b"41ed 4096 -1 d").unwrap();
        assert_eq!((directory.kind, directory.bytes), (FileKind::Directory, None));
        assert_eq!(entry(b"a1ff 3 0 l").unwrap().kind, FileKind::Link);
        assert_eq!(entry(b"11a4 0 0 p").unwrap().kind, FileKind::Other);
        for bad in [&b""[..], b"81a4 12", b"x 1 1 n", b"81a4 -1 1 n"] {
            assert!(entry(bad).is_none());
        }
    }
}
