//! Files of a sandbox's workspace. Everything about a path is decided inside the sandbox.

use std::sync::Arc;

use bytes::Bytes;
use sandbox_api::SandboxId;

use super::{Error, Service};
use crate::agent::{self, Refusal};
use crate::model::files::NewFile;
use crate::model::limits;

impl Service {
    /// Writes all of the files or none.
    pub async fn write_files(self: &Arc<Self>, id: &SandboxId, files: Vec<NewFile>) -> Result<(), Error> {
        Ok(self.in_use(id).await?.agent.write_files(files).await?)
    }

    /// A whole file; `None` where there is none.
    pub async fn read_file(self: &Arc<Self>, id: &SandboxId, path: &str) -> Result<Option<Bytes>, Error> {
        match self.in_use(id).await?.agent.read_file(path, limits::MAX_READ_BYTES).await {
            Err(agent::Error::Refused(Refusal::FileUnknown { .. })) => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}
