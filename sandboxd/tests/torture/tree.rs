//! A directory with files of all kinds, which a program in the sandbox changes at random and describes exactly.

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::{Record, StartCommand};
use sandbox_client::{Client, Error};

/// The directory, relative to the workspace.
pub(crate) const TREE: &str = "tree";

const PROGRAM: &str = include_str!("tree.py");

/// Changes the tree. After an error it may have changed, also partly.
pub(crate) async fn change(client: &Client, sandbox: &SandboxId, seed: u64) -> Result<(), Error> {
    run(client, sandbox, &["change", &seed.to_string()]).await.map(drop)
}

/// Describes every file and directory of the tree, a line for each.
pub(crate) async fn list(client: &Client, sandbox: &SandboxId) -> Result<String, Error> {
    run(client, sandbox, &["list"]).await
}

/// Returns the output, which names a failure.
async fn run(client: &Client, sandbox: &SandboxId, act: &[&str]) -> Result<String, Error> {
    let args = ["-c", PROGRAM, TREE].iter().chain(act).map(|&argument| argument.to_owned()).collect();
    let command = StartCommand { cmd: Some("python3".into()), args: Some(args), ..StartCommand::default() };
    let mut records = client.run(sandbox, &command).await?;
    let mut printed = String::new();
    while let Some(record) = records.next().await {
        match record? {
            Record::Stdout(output) | Record::Stderr(output) => printed.push_str(&output.data),
            Record::Exit { exit_code, reason, .. } if exit_code != 0 => {
                printed.push_str(&format!("ended with {exit_code}, {reason:?}"));
            }
            _ => {}
        }
    }
    Ok(printed)
}

/// The description without the holes of files, which are stored as zeros in a base.
pub(crate) fn without_holes(description: &str) -> String {
    description.replace(" sparse ", " full ")
}

/// The first line in which two descriptions differ.
pub(crate) fn difference(before: &str, after: &str) -> String {
    let (mut before, mut after) = (before.lines(), after.lines());
    loop {
        match (before.next(), after.next()) {
            (None, None) => return "nothing".into(),
            (before, after) if before == after => {}
            (before, after) => return format!("{before:?} and now {after:?}"),
        }
    }
}
