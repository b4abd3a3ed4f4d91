//! `fs_ingest` and `fs_export`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::files::{FileKind, FileToWrite, GlobFiles, WriteFiles};
use sandbox_api::{SandboxId, WORKSPACE};
use sandbox_client::Error as ClientError;
use serde::Serialize;

use super::fault::Fault;
use super::schema;
use crate::Error;
use crate::host_root::HostRoot;
use crate::toolbox::{Call, Toolbox};

/// Maximum number of files in one call.
const MAX_INGESTED: usize = 10_000;
const MAX_EXPORTED: u32 = 1000;

/// Maximum length of the files in a result, in bytes of JSON. A result has at most 700 KiB, and this part of it is a text
/// in JSON.
const MAX_EXPORTED_BYTES: usize = 300 * 1024;

/// Number of files that are read at once.
const AT_ONCE: usize = 8;

/// Result of `fs_ingest`.
#[derive(Debug, Serialize)]
pub(super) struct Ingested {
    ok: bool,
    count: usize,
}

/// Result of `fs_export`.
#[derive(Debug, Serialize)]
pub(super) struct Exported {
    files: BTreeMap<String, String>,
    /// Paths of files that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

/// A file that was read, or its path if it could not be read.
type Export = Result<(String, String), String>;

impl Toolbox {
    pub(super) async fn sql_fs_ingest(
        &self,
        input: schema::Ingest,
        call: &Call<'_>,
    ) -> Result<Ingested, Fault> {
        let base = input.base_path.as_deref().unwrap_or(WORKSPACE).trim_end_matches('/');
        let (files, paths) = (input.files.unwrap_or_default(), input.paths.unwrap_or_default());
        let count = files.len() + paths.len();
        if !(1..=MAX_INGESTED).contains(&count) {
            return Err(invalid(format!(
                "`files` and `paths` must have 1 to {MAX_INGESTED} entries together"
            )));
        }
        if let Some(bad) = files.keys().chain(paths.keys()).find(|path| !is_relative(path)) {
            return Err(invalid(format!("invalid path: {bad}")));
        }
        if let Some((path, _)) = files.iter().find(|(_, content)| BASE64_STANDARD.decode(content).is_err()) {
            return Err(invalid(format!("the content of {path} is not base64")));
        }
        let root = match (&self.root, paths.is_empty()) {
            (Some(root), _) => Some(root),
            (None, true) => None,
            (None, false) => return Err(Fault::new("FORBIDDEN", "this server reads no files of the host")),
        };
        let inline = files.into_iter().map(|(path, content_base64)| FileToWrite {
            path: format!("{base}/{path}"),
            content_base64,
            mode: None,
        });
        let inline = WriteFiles { files: inline.collect() };
        let write = |sandbox: SandboxId| {
            let (inline, paths) = (&inline, &paths);
            async move { self.ingest(&sandbox, inline, root, base, paths).await }
        };
        self.in_sandbox(Some(&input.id), call, write).await?;
        Ok(Ingested { ok: true, count })
    }

    async fn ingest(
        &self,
        sandbox: &SandboxId,
        inline: &WriteFiles,
        root: Option<&HostRoot>,
        base: &str,
        paths: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        if !inline.files.is_empty() {
            self.client.write_files(sandbox, inline).await?;
        }
        if let Some(root) = root {
            for (path, source) in paths {
                self.send_file(sandbox, root, source, &format!("{base}/{path}")).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn sql_fs_export(
        &self,
        input: schema::Export,
        call: &Call<'_>,
    ) -> Result<Exported, Fault> {
        let base = input.base_path.as_deref().unwrap_or(WORKSPACE);
        let export = |sandbox: SandboxId| async move { self.export(&sandbox, base).await };
        let exported = self.in_sandbox(Some(&input.id), call, export).await?;
        exported.ok_or_else(|| Fault::new("EEXPORT_TOO_LARGE", "export too large; narrow with basePath"))
    }

    /// Reads the files below a directory. `None` if they are too many or too long for a result.
    async fn export(&self, sandbox: &SandboxId, base: &str) -> Result<Option<Exported>, Error> {
        let request = GlobFiles {
            pattern: "**".into(),
            path: Some(base.to_owned()),
            max_results: Some(MAX_EXPORTED),
            include_ignored: Some(true),
            // The files are opened by these names.
            hide_secrets: None,
            ..GlobFiles::default()
        };
        let found = self.client.glob_files(sandbox, &request).await?;
        let bytes = found.entries.iter().filter(|entry| entry.kind == FileKind::File).map(|entry| entry.size);
        if found.truncated || bytes.sum::<u64>() > MAX_EXPORTED_BYTES as u64 {
            return Ok(None);
        }
        // Paths of entries are relative to the workspace.
        let folder = base.strip_prefix(WORKSPACE).unwrap_or(base).trim_matches('/');
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let files = found.entries.into_iter().filter(|entry| entry.kind == FileKind::File);
        let reads = files.map(|entry| {
            let name = entry.path.strip_prefix(&prefix).unwrap_or(&entry.path).to_owned();
            async move { self.export_file(sandbox, &entry.path, name).await }
        });
        let mut reads = futures::stream::iter(reads).buffered(AT_ONCE);
        let (mut exported, mut bytes) = (Exported { files: BTreeMap::new(), errors: Vec::new() }, 0);
        while let Some(read) = reads.try_next().await? {
            match read {
                Ok((name, content)) => {
                    bytes += json_bytes(&name) + json_bytes(&content);
                    exported.files.insert(name, content);
                }
                Err(path) => {
                    bytes += json_bytes(&path);
                    exported.errors.push(path);
                }
            }
            if bytes > MAX_EXPORTED_BYTES {
                return Ok(None);
            }
        }
        Ok(Some(exported))
    }

    async fn export_file(&self, sandbox: &SandboxId, path: &str, name: String) -> Result<Export, Error> {
        let read = match self.client.get_file_without_secrets(sandbox, path).await {
            Ok(content) => content.bytes(MAX_EXPORTED_BYTES).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(bytes) => Ok(Ok((name, text_or_url(bytes)))),
            // It was removed or replaced meanwhile, or has grown.
            Err(ClientError::Refused { .. } | ClientError::TooLong { .. }) => Ok(Err(path.to_owned())),
            Err(error) => Err(error.into()),
        }
    }
}

/// The text, or a data URL (RFC 2397) of bytes that are not UTF-8.
fn text_or_url(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        format!("data:application/octet-stream;base64,{}", BASE64_STANDARD.encode(error.as_bytes()))
    })
}

fn json_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(0, |json| json.len())
}

fn invalid(message: String) -> Fault {
    Fault::new("INVALID_INPUT", message)
}

/// Whether a path stays below the directory that it is relative to.
fn is_relative(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\0')
        && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_must_stay_below_its_directory() {
        assert!(is_relative("a/b..c/.d"));
        for path in ["", "/a", "..", "a/../../b", "a\0"] {
            assert!(!is_relative(path), "{path:?}");
        }
    }

    #[test]
    fn other_bytes_than_utf_8_become_a_url() {
        assert_eq!(text_or_url(b"a".to_vec()), "a");
        assert_eq!(text_or_url(vec![0xff]), "data:application/octet-stream;base64,/w==");
    }
}
