//! The operator's commands, beside the server: `chat user …`.
//!
//! They use the same database as a running server, which sees their changes within seconds. They never change its tables:
//! a running server may be of an earlier version.

mod user;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

pub use self::user::UserCommand;
use crate::people::People;
use crate::settings::Settings;
use crate::store::Store;

/// Arguments of the program. Without a command, it serves the chat.
#[derive(Debug, Parser)]
#[command(name = "chat", version, about = "A chat app whose model has a real bash")]
pub struct Arguments {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// A command of the operator.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Manages the people who can sign in. Without any, the chat has no sign-in.
    #[command(subcommand)]
    User(UserCommand),
}

/// Runs a command, on the database of the state directory.
///
/// # Errors
/// The settings are invalid, the database cannot be opened, or the command failed.
pub async fn run(command: Command, env: impl Fn(&str) -> Option<String>) -> anyhow::Result<()> {
    let dir = match Settings::read(env) {
        Ok(settings) => settings.state_dir,
        Err(faults) => bail!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    };
    if !dir.join("chat.db").is_file() {
        bail!("CHAT_STATE_DIR {} has no chats: start the chat first", dir.display());
    }
    let store = Store::open_beside(&dir).await.context("the accounts cannot be opened")?;
    let people = People::new(store)?;
    match command {
        Command::User(command) => user::run(command, &people).await,
    }
}
