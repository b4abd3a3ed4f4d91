//! What one project does to another when the daemon has no more room: nothing.

use futures::future::join_all;
use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::client_of;
use crate::support::harness::{Daemon, Home};

async fn create(client: &Client, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.map(|created| created.sandbox_id)
}

async fn state(client: &Client, sandbox: &SandboxId) -> SandboxState {
    client.get(sandbox).await.unwrap().state
}

fn is_full(error: &Error) -> bool {
    error.code() == Some(ErrorCode::CapacityExhausted)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_parks_only_its_own_sandboxes() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "3")).await;
    let [lab, press] = join_all(["lab", "press"].map(|name| client_of(&daemon, name, None, &["use"])))
        .await
        .try_into()
        .unwrap();
    let of_lab = create(&lab, "chat:1").await.unwrap();
    let (first, second) = (create(&press, "chat:1").await.unwrap(), create(&press, "chat:2").await.unwrap());
    // The one of `lab` was idle for longer.
    let third = create(&press, "chat:3").await.unwrap();
    assert_eq!(state(&lab, &of_lab).await, SandboxState::Running);
    assert_eq!(state(&press, &first).await, SandboxState::Parked);
    for sandbox in [&second, &third] {
        assert_eq!(state(&press, sandbox).await, SandboxState::Running);
    }
    // A project without a sandbox that it could park is refused, and parks nothing of others.
    let other = client_of(&daemon, "other", None, &["use"]).await;
    let refused = create(&other, "chat:1").await.unwrap_err();
    assert!(is_full(&refused), "{refused:?}");
    assert_eq!(state(&lab, &of_lab).await, SandboxState::Running);
    // One that creates as fast as it can takes no permit of another, also while that one exchanges its own.
    let (flood, ()) = tokio::join!(
        join_all((0..6).map(|number| {
            let (press, key) = (press.clone(), format!("chat:{number}"));
            async move { create(&press, &key).await }
        })),
        async {
            for key in ["chat:a", "chat:b", "chat:c"] {
                create(&lab, key).await.unwrap();
            }
        }
    );
    assert!(flood.iter().all(|result| result.as_ref().map_or_else(is_full, |_| true)), "{flood:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guaranteed_sandbox_always_finds_room() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "3")).await;
    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    let press = client_of(&daemon, "press", None, &["use"]).await;
    let guaranteed = Quotas { guaranteed_running: Some(1), ..Quotas::default() };
    daemon.client.set_quotas("lab", &guaranteed).await.unwrap();
    let too_many = Quotas { guaranteed_running: Some(3), ..Quotas::default() };
    let refused = daemon.client.set_quotas("press", &too_many).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest));
    let mut of_press = Vec::new();
    for number in 0..4 {
        of_press.push(create(&press, &format!("chat:{number}")).await.unwrap());
    }
    let states = join_all(of_press.iter().map(|sandbox| state(&press, sandbox))).await;
    let running = states.iter().filter(|state| **state == SandboxState::Running).count();
    assert_eq!(running, 2, "one permit is kept: {states:?}");
    create(&lab, "chat:1").await.unwrap();
    daemon.stop().await;
}
