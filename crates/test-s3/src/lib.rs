//! A real S3 server for one test, and a proxy in front of it that can misbehave. Only for tests: everything here panics on
//! errors.
//!
//! The server is moto, which `scripts/test` installs from PyPI. It keeps its objects in memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod faults;
mod server;

pub use faults::{Fault, Proxy};
pub use server::{BUCKET, S3};

use sandboxd_model::{MasterKeys, RemoteLocation, RemoteStore};

/// Settings of a store at an endpoint, in a folder of [`BUCKET`], with master keys as in a key file.
pub fn settings(endpoint: &str, folder: &str, keys: &str) -> RemoteStore {
    RemoteStore {
        location: RemoteLocation::parse(&format!("s3://{BUCKET}/{folder}")).unwrap(),
        endpoint: Some(endpoint.to_owned()),
        region: "us-east-1".into(),
        access_key_id: "test".into(),
        secret_access_key: "test".to_owned().into(),
        master_keys: MasterKeys::parse(keys).unwrap(),
    }
}

/// A line of a key file. Different numbers are different keys.
pub fn key(number: u8) -> String {
    format!("{number:064x}\n")
}
