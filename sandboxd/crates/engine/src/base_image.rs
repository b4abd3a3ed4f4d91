//! A base image for machines that reach no container registry.
//!
//! The script `make-base`, beside the images, writes a root file system as a tar archive. The engine imports it
//! while it is being written.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use bollard::query_parameters::CreateImageOptions;
use futures::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio_util::io::ReaderStream;
use tracing::info;

use super::progress::drain;
use super::{Engine, Error};
use sandboxd_model::limits;

/// The signal of a process that writes to a closed pipe (signal(7)).
const SIGPIPE: i32 = rustix::process::Signal::PIPE.as_raw();

/// Tag of the local base image.
pub(super) const LOCAL_BASE: &str = "remcochat-sandbox-base:trixie";

impl Engine {
    /// Creates the local base image.
    pub(super) async fn make_base(&self, folder: &Path) -> Result<(), Error> {
        let script = folder.join("make-base");
        let fail = |source: io::Error| Error::BaseImage { script: script.clone(), source };
        let mut child = Command::new(&script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        let output = child.stdout.take().ok_or_else(|| fail(io::ErrorKind::BrokenPipe.into()))?;
        let progress = child.stderr.take().ok_or_else(|| fail(io::ErrorKind::BrokenPipe.into()))?;

        let (name, tag) = LOCAL_BASE.split_once(':').unwrap_or((LOCAL_BASE, "latest"));
        let options = CreateImageOptions {
            from_src: Some("-".into()),
            repo: Some(name.into()),
            tag: Some(tag.into()),
            ..Default::default()
        };
        let body = ReaderStream::new(output).boxed();
        let docker = self.docker.with_timeout(limits::IMAGE_BUILD);
        let import = drain(docker.create_image(options, Some(body)));
        let log = async {
            let mut lines = BufReader::new(progress).lines();
            let mut last = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                info!(target: "sandboxd::image_build", "{line}");
                last = line;
            }
            last
        };
        let (imported, last) = tokio::join!(import, log);
        let status = child.wait().await.map_err(fail)?;
        // A script that could not finish writing failed because the import did.
        let broke_off = status.signal() == Some(SIGPIPE) || status.code() == Some(128 + SIGPIPE);
        let is_cause = !broke_off || imported.is_ok();
        if !status.success() && is_cause {
            return Err(fail(io::Error::other(format!("it ended with {status}: {last}"))));
        }
        imported.map_err(|source| Error::from_call("import image", &self.address, source))
    }
}
