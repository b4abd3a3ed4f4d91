//! The audit record: what is in it, who can read it, a full disk, and a daemon that is killed.

mod command_line;
mod full_disk;
mod kills;
mod lines;
mod visitors;

use std::path::PathBuf;

use sandbox_api::audit::{AuditLine, ListAudit};
use sandbox_client::Client;
use sandboxd::audit::verify::{Report, verify};
use sandboxd::audit::{Head, Key};
use sandboxd::store::sqlite::read_audit_head;

use crate::support::harness::{Daemon, Home};

/// The newest lines of an act, newest first.
async fn lines_of(client: &Client, act: &str) -> Vec<AuditLine> {
    let query = ListAudit { act: Some(act.to_owned()), ..ListAudit::default() };
    client.audit(&query).await.unwrap().lines
}

/// The two lines of the newest act: before it, and its outcome.
async fn last_act(daemon: &Daemon, act: &str) -> [AuditLine; 2] {
    let lines = lines_of(&daemon.client, act).await;
    let outcome = lines.iter().find(|line| line.of.is_some()).unwrap().clone();
    let before = lines.iter().find(|line| Some(line.seq) == outcome.of).unwrap().clone();
    [before, outcome]
}

fn dir_of(home: &Home) -> PathBuf {
    home.path().join("state/audit")
}

/// Checks the record of a home, as `sandboxd audit verify` does.
async fn checked(home: &Home) -> Report {
    let state_dir = home.config().state_dir;
    let stored = read_audit_head(&state_dir).await.unwrap();
    let stored = stored.map(|head| Head { seq: head.seq, mac: head.mac.parse().unwrap() });
    let key = Key::new(home.instance().unwrap().audit_key());
    verify(&home.config().audit.dir, &key, stored.as_slice()).unwrap()
}
