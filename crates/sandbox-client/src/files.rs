//! Files of a workspace.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use sandbox_api::files::{FileRead, WriteFiles};
use sandbox_api::{Done, SandboxId};

use crate::{Client, Error, TRANSFER, json};

impl Client {
    /// Writes all of the files or none. Safe to repeat.
    pub async fn write_files(&self, sandbox: &SandboxId, files: &WriteFiles) -> Result<Done, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:write"), files), TRANSFER).await
    }

    /// A whole file of at most 50 MiB; `None` where there is none.
    pub async fn read_file(&self, sandbox: &SandboxId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let request = self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/files:read"));
        let read: FileRead = json(request.query(&[("path", path)]), TRANSFER).await?;
        read.content_base64
            .map(|content| BASE64_STANDARD.decode(content))
            .transpose()
            .map_err(Error::BadContent)
    }
}
