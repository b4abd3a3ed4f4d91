//! Resources: files of a sandbox as URIs, `sandbox://{sandbox}/{+path}`, for hosts that attach files to a conversation.
//!
//! The handle of the sandbox is part of the URI, so a URI stays valid in every conversation of the client. A path is
//! relative to the workspace, and percent-encoded. An absolute one begins with a second slash.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sandbox_api::SandboxId;
use sandbox_api::files::FileKind;
use sandbox_api::sandbox::{ListSandboxes, SandboxState};

use crate::Error;
use crate::images;
use crate::session::own_sandbox;
use crate::toolbox::Toolbox;

/// The URIs of all resources (RFC 6570).
pub const RESOURCE_TEMPLATE: &str = "sandbox://{sandbox}/{+path}";

/// Maximum number of resources in a list.
const MAX_LISTED: u32 = 200;

/// Maximum size of a resource that can be read, in bytes. In base64 it is below the 700 KiB of a result.
const MAX_RESOURCE_BYTES: usize = 512 * 1024;

/// Maximum length of a text in JSON, in bytes. A longer one, with many characters that JSON escapes, is returned in base64.
const MAX_JSON_BYTES: usize = 690 * 1024;

/// Bytes of a path that are percent-encoded (RFC 3986 section 3.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// URI of the file.
    pub uri: String,
    /// Path relative to the workspace.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceContent {
    /// UTF-8.
    Text(String),
    /// Anything else, in base64.
    Base64 {
        /// The bytes.
        data: String,
        /// Media type of an image.
        mime_type: Option<&'static str>,
    },
}

impl Toolbox {
    /// Lists the files at the top level of the conversation's workspace. Creates and wakes nothing: without a running
    /// sandbox, the list is empty.
    pub async fn resources(&self, session: Option<&str>) -> Result<Vec<Resource>, Error> {
        let Some(key) = session.map(|session| self.key_of(session)).transpose()? else {
            return Ok(Vec::new());
        };
        let of_session = ListSandboxes {
            session_key: Some(key),
            state: Some(SandboxState::Running),
            ..ListSandboxes::default()
        };
        let Some(sandbox) = own_sandbox(&self.client, of_session).await? else {
            return Ok(Vec::new());
        };
        let sandbox = sandbox.sandbox_id;
        let page = self.client.list_files(&sandbox, "", 1, MAX_LISTED, None).await?;
        let files = page.entries.into_iter().filter(|entry| entry.kind == FileKind::File);
        Ok(files
            .map(|file| Resource { uri: uri_of(&sandbox, &file.path), bytes: file.size, name: file.path })
            .collect())
    }

    /// Reads a file. `None` if there is no such resource.
    pub async fn read_resource(&self, uri: &str) -> Result<Option<ResourceContent>, Error> {
        let Some((handle, path)) = parts_of(uri) else { return Ok(None) };
        let sandbox = match self.of_handle(&handle).await {
            Err(Error::UnknownSandbox { .. }) => return Ok(None),
            found => found?,
        };
        let about = Error::about(&path);
        let mut content = match self.client.get_file_without_secrets(&sandbox, &path).await.map_err(about) {
            Err(Error::NoFile { .. }) => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > MAX_RESOURCE_BYTES {
                return Err(Error::TooLarge { path, max_bytes: MAX_RESOURCE_BYTES });
            }
        }
        let mime_type = images::format_of(&bytes).map(|format| format.to_mime_type());
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) if mime_type.is_none() && is_shown_as_text(&text) => ResourceContent::Text(text),
            Ok(text) => ResourceContent::Base64 { data: BASE64_STANDARD.encode(text), mime_type },
            Err(error) => {
                ResourceContent::Base64 { data: BASE64_STANDARD.encode(error.as_bytes()), mime_type }
            }
        }))
    }
}

fn is_shown_as_text(text: &str) -> bool {
    !text.contains('\0') && serde_json::to_string(text).is_ok_and(|json| json.len() <= MAX_JSON_BYTES)
}

fn uri_of(sandbox: &SandboxId, path: &str) -> String {
    format!("sandbox://{sandbox}/{}", utf8_percent_encode(path, ENCODED))
}

/// Handle and path of a URI.
pub(crate) fn parts_of(uri: &str) -> Option<(String, String)> {
    let (handle, path) = uri.strip_prefix("sandbox://")?.split_once('/')?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    (!path.is_empty()).then(|| (handle.to_owned(), path.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_its_uri() {
        let sandbox: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        for path in ["a.txt", "src/é ü.rs", "100% #?&/x", "/vercel/sandbox/outputs/cmd_1.log"] {
            let (handle, back) = parts_of(&uri_of(&sandbox, path)).unwrap();
            assert_eq!((handle.as_str(), back.as_str()), (sandbox.as_str(), path));
        }
        assert_eq!(uri_of(&sandbox, "a b"), "sandbox://sbx_0123456789abcdef/a%20b");
    }

    #[test]
    fn a_text_that_is_long_in_json_is_returned_in_base64() {
        assert!(is_shown_as_text(&"é\n".repeat(MAX_RESOURCE_BYTES / 3)));
        for text in ["\u{1}".repeat(MAX_RESOURCE_BYTES), "\"".repeat(MAX_RESOURCE_BYTES), "\0".into()] {
            assert!(!is_shown_as_text(&text));
        }
    }

    #[test]
    fn other_uris_are_not_resources() {
        for uri in
            ["", "file:///etc/passwd", "sandbox://sbx_0123456789abcdef", "sandbox://x/", "sandbox:///%ff"]
        {
            assert_eq!(parts_of(uri), None, "{uri}");
        }
    }
}
