//! Projects, their tokens, and what one owner sees of another: nothing.

mod children;
mod command_line;
mod disk_budget;
mod fairness;
mod front;
mod fuzzed;
mod intruder;
mod intruder_admin;
mod jwt;
mod killed;
mod left_revocations;
mod quotas;
mod rates;
mod restored;
mod subjects;
mod tickets;
mod tokens;

use sandbox_api::project::{CreateToken, TokenCreated};
use sandbox_client::Client;

use crate::support::harness::{Daemon, Home};

/// A client with a new token of a project, which is created if needed.
pub(crate) async fn client_of(
    daemon: &Daemon,
    project: &str,
    subject: Option<&str>,
    scopes: &[&str],
) -> Client {
    let token = token_of(daemon, project, subject, scopes).await.token;
    Client::new(&daemon.base, &token).unwrap()
}

pub(crate) async fn token_of(
    daemon: &Daemon,
    project: &str,
    subject: Option<&str>,
    scopes: &[&str],
) -> TokenCreated {
    daemon.client.create_project(project).await.unwrap();
    let request = CreateToken {
        subject: subject.map(str::to_owned),
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        ..CreateToken::default()
    };
    daemon.client.create_token(project, &request).await.unwrap()
}

/// Settings of a daemon for a test with more requests in a minute than a subject may send.
fn without_rate_limits(home: Home) -> Home {
    let settings =
        ["SANDBOXD_READS_PER_MINUTE", "SANDBOXD_COMMANDS_PER_MINUTE", "SANDBOXD_CREATES_PER_MINUTE"];
    settings.into_iter().fold(home, |home, name| home.set(name, "0"))
}
