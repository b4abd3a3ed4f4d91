//! What one subject of a project does to another one when there is no more room: not more than its fair share.

use futures::future::join_all;
use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::client_of;
use crate::support::harness::{Daemon, Home, script};

async fn clients<const N: usize>(daemon: &Daemon, subjects: [&str; N]) -> [Client; N] {
    let clients = subjects.map(|subject| client_of(daemon, "lab", Some(subject), &["use"]));
    join_all(clients).await.try_into().unwrap()
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.map(|created| created.sandbox_id)
}

async fn state(client: &Client, sandbox: &SandboxId) -> SandboxState {
    client.get(sandbox).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_parks_its_own_sandboxes_before_those_of_others() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "3")).await;
    let [ann, bob, cy] = clients(&daemon, ["ann", "bob", "cy"]).await;
    let of_bob = create(&bob, "chat:1").await.unwrap();
    let (first, second) = (create(&ann, "chat:1").await.unwrap(), create(&ann, "chat:2").await.unwrap());
    // The one of `bob` was idle for longer.
    create(&ann, "chat:3").await.unwrap();
    assert_eq!(state(&bob, &of_bob).await, SandboxState::Running);
    assert_eq!(state(&ann, &first).await, SandboxState::Parked);
    // A subject that runs none takes a permit of the one that runs the most.
    let of_cy = create(&cy, "chat:1").await.unwrap();
    assert_eq!(state(&bob, &of_bob).await, SandboxState::Running);
    assert_eq!(state(&ann, &second).await, SandboxState::Parked);
    // Each runs one. A busy one cannot be parked, and others do not run more.
    let busy = ann.start(&create(&ann, "chat:3").await.unwrap(), &script("sleep 300")).await.unwrap();
    let refused = create(&ann, "chat:4").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted), "{refused:?}");
    for (client, sandbox) in [(&bob, &of_bob), (&cy, &of_cy)] {
        assert_eq!(state(client, sandbox).await, SandboxState::Running);
    }
    drop(busy);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_has_no_more_sandboxes_than_its_quota() {
    let daemon = Daemon::start().await;
    let [ann, bob] = clients(&daemon, ["ann", "bob"]).await;
    let quotas = Quotas { sandboxes_per_subject: Some(1), ..Quotas::default() };
    daemon.client.set_quotas("lab", &quotas).await.unwrap();
    let created = join_all(["chat:1", "chat:2", "chat:3"].map(|key| create(&ann, key))).await;
    let (made, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 2));
    for error in refused.into_iter().filter_map(Result::err) {
        let body = error.body().expect("a refusal");
        assert_eq!(body.code, ErrorCode::CapacityExhausted);
        assert_eq!(
            (&body.details["quota"], &body.details["value"]),
            (&"sandboxesPerSubject".into(), &1.into())
        );
    }
    create(&bob, "chat:1").await.unwrap();
    // Those of the project itself belong to no subject.
    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    for key in ["chat:1", "chat:2"] {
        create(&lab, key).await.unwrap();
    }
    ann.delete(made[0].as_ref().unwrap()).await.unwrap();
    create(&ann, "chat:4").await.unwrap();
    daemon.stop().await;
}
