//! A sealed store on a real S3 server, and one that misbehaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod faults;
mod keys;
mod objects;

use std::sync::Arc;

use object_store::ObjectStore;
use sandboxd_sealed::{Error, Opened, Recorded, Remote};
use test_s3::{S3, key, settings};

/// The installation of most tests.
const INSTALLATION: &str = "one";

async fn open_with(endpoint: &str, keys: &str, recorded: &Recorded) -> Result<Opened, Error> {
    Remote::new(&settings(endpoint, "folder", keys)).unwrap().open(INSTALLATION, recorded).await
}

async fn open(endpoint: &str) -> Opened {
    open_with(endpoint, &key(1), &Recorded::default()).await.unwrap()
}

/// A server, and its store. `None` if the server is not installed.
async fn start() -> Option<(S3, Arc<dyn ObjectStore>)> {
    let server = S3::start().await?;
    let opened = open(&server.endpoint).await;
    Some((server, opened.store))
}
