//! Projects, their tokens, and what one owner sees of another: nothing.

mod children;
mod command_line;
mod intruder;
mod restored;
mod tokens;

use sandbox_api::project::{CreateToken, TokenCreated};
use sandbox_client::Client;

use crate::support::harness::Daemon;

/// A client with a new token of a project, which is created if needed.
async fn client_of(daemon: &Daemon, project: &str, subject: Option<&str>, scopes: &[&str]) -> Client {
    let token = token_of(daemon, project, subject, scopes).await.token;
    Client::new(&daemon.base, &token).unwrap()
}

async fn token_of(daemon: &Daemon, project: &str, subject: Option<&str>, scopes: &[&str]) -> TokenCreated {
    daemon.client.create_project(project).await.unwrap();
    let request = CreateToken {
        subject: subject.map(str::to_owned),
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        ..CreateToken::default()
    };
    daemon.client.create_token(project, &request).await.unwrap()
}
