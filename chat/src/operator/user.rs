//! `chat user`: accounts.

use std::io::{self, IsTerminal, Read, Write};

use anyhow::Context;
use clap::Subcommand;
use secrecy::SecretString;

use crate::account::limits::MAX_PASSWORD_BYTES;
use crate::account::{Role, Secret, UserName};
use crate::people::People;
use crate::store::UserChange;

/// A command for accounts.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Adds a user. The first one must be an admin, and gets the existing chats.
    Add {
        /// Letters, digits and . _ @ + -
        name: UserName,
        /// Makes the user an admin.
        #[arg(long)]
        admin: bool,
        /// Reads the password from standard input, instead of making one up and printing it.
        #[arg(long)]
        password_stdin: bool,
    },
    /// Lists users.
    Ls,
    /// Disables a user, and ends their sessions.
    Disable {
        /// The user.
        name: UserName,
    },
    /// Enables a disabled user again.
    Enable {
        /// The user.
        name: UserName,
    },
    /// Gives a user a new password, and ends their sessions.
    Reset {
        /// The user.
        name: UserName,
        /// Reads the password from standard input, instead of making one up and printing it.
        #[arg(long)]
        password_stdin: bool,
    },
}

pub(super) async fn run(command: UserCommand, people: &People) -> anyhow::Result<()> {
    match command {
        UserCommand::Add { name, admin, password_stdin } => {
            let (password, made_up) = password(password_stdin)?;
            let role = if admin { Role::Admin } else { Role::User };
            let added = people.add(&name, role, password).await;
            added.with_context(|| format!("{name} was not added"))?;
            print(made_up.as_ref().map(Secret::expose))
        }
        UserCommand::Ls => list(people).await,
        UserCommand::Disable { name } => set_disabled(people, &name, true).await,
        UserCommand::Enable { name } => set_disabled(people, &name, false).await,
        UserCommand::Reset { name, password_stdin } => {
            let user = people.named(&name).await?;
            let (password, made_up) = password(password_stdin)?;
            people.reset_password(&user.id, password).await?;
            print(made_up.as_ref().map(Secret::expose))
        }
    }
}

async fn set_disabled(people: &People, name: &UserName, is_disabled: bool) -> anyhow::Result<()> {
    let user = people.named(name).await?;
    let what = UserChange { role: None, is_disabled: Some(is_disabled) };
    people.change(&user.id, what).await?;
    Ok(())
}

async fn list(people: &People) -> anyhow::Result<()> {
    let users = people.users().await?;
    let width = users.iter().map(|user| user.name.as_str().len()).max().unwrap_or_default();
    for user in users {
        let state = if user.disabled_at.is_some() { "disabled" } else { "" };
        let line =
            format!("{:width$}  {:5}  {}  {state}", user.name.as_str(), user.role.name(), user.created_at);
        print(Some(line.trim_end()))?;
    }
    Ok(())
}

/// Returns the password of standard input, or one that is made up and must be shown.
fn password(is_given: bool) -> anyhow::Result<(SecretString, Option<Secret>)> {
    if !is_given {
        let secret = Secret::generate()?;
        return Ok((secret.expose().into(), Some(secret)));
    }
    if io::stdin().is_terminal() {
        writeln!(io::stderr(), "The password, which is shown, then Enter and Ctrl-D:")?;
    }
    let mut text = String::new();
    // With room for a line break. A longer one is rejected by its length.
    let limit = u64::try_from(MAX_PASSWORD_BYTES)? + 2;
    io::stdin().take(limit).read_to_string(&mut text).context("the password cannot be read")?;
    Ok((text.trim_end_matches(['\r', '\n']).into(), None))
}

fn print(line: Option<&str>) -> anyhow::Result<()> {
    line.map_or(Ok(()), |line| Ok(writeln!(io::stdout(), "{line}")?))
}
