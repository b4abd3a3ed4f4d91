//! A directory that the daemon serves as a repository, so that fetches are interrupted too.

use std::fs;
use std::path::PathBuf;

use sandbox_api::repository::{RepositoryRan, RunInRepository};
use sandbox_api::sandbox::ListSandboxes;
use sandbox_client::{Client, Error};
use sandboxd::model::repository::SANDBOX_KEYS;
use test_daemon::Home;

use crate::world::World;

/// Name of the directory in requests.
const NAME: &str = "dir:torture";

/// Files of the directory. All have the same content.
const FILES: usize = 50;

/// Lets requests name the directory.
pub(crate) fn allow(home: Home) -> Home {
    let path = directory(&home);
    fs::create_dir_all(&path).unwrap();
    home.set("SANDBOXD_REPOSITORY_DIRECTORIES", &format!("torture={}", path.display()))
}

/// Changes the directory, so that the request has to fetch it.
pub(crate) async fn reach(home: &Home, client: &Client, number: usize) -> Result<(), Error> {
    // Other content than in all earlier cases.
    let content = fs::read_to_string(file(home, 0)).unwrap_or_default() + &format!("{number}\n");
    for at in 0..FILES {
        fs::write(file(home, at), &content).unwrap();
    }
    read(client).await.map(drop)
}

/// Checks that the next request gets all files as they are now, and removes the sandboxes of all requests.
pub(crate) async fn check(world: &mut World, case: &str) {
    let now = fs::read_to_string(file(&world.home, 0)).unwrap();
    match read(&world.client).await {
        Ok(ran) if ran.stdout == format!("{now}{FILES}\n") => {}
        other => world.found(format!("{case}: a repository afterwards: {other:?}")),
    }
    let listed = world.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    for sandbox in listed.iter().filter(|sandbox| sandbox.session_key.starts_with(SANDBOX_KEYS)) {
        if let Err(error) = world.client.delete(&sandbox.sandbox_id).await {
            world.found(format!("{case}: delete of the sandbox of a repository: {error:?}"));
        }
    }
}

async fn read(client: &Client) -> Result<RepositoryRan, Error> {
    let command = "cat 0; for file in *; do cmp \"$file\" 0 && echo same; done | grep -c same";
    let request =
        RunInRepository { repository: NAME.into(), command: command.into(), ..RunInRepository::default() };
    client.run_in_repository(&request).await
}

fn directory(home: &Home) -> PathBuf {
    home.path().join("repository")
}

fn file(home: &Home, at: usize) -> PathBuf {
    directory(home).join(at.to_string())
}
