//! What one project does to another when the daemon has no more room, or when it is busy: as little as possible.

use std::time::{Duration, Instant};

use futures::future::join_all;
use sandbox_api::batch::RunBatch;
use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{client_of, token_of, without_rate_limits};
use crate::support::harness::{Daemon, Home, docker, script};
use crate::support::http::{Answer, HttpClient};

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

/// Size of a download, and how long it takes at least at the pace of a project that is not alone.
const DOWNLOAD: usize = 24 * 1024 * 1024;
const PACED: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn downloads_are_paced_while_another_project_works() {
    let daemon = Daemon::start_in(without_rate_limits(Home::new())).await;
    let lab = token_of(&daemon, "lab", None, &["use"]).await.token;
    let press = client_of(&daemon, "press", None, &["use"]).await;
    let client = Client::new(&daemon.base, &lab).unwrap();
    let sandbox = create(&client, "chat:1").await.unwrap();
    let fill = RunBatch {
        commands: vec![script(&format!("head -c {DOWNLOAD} /dev/zero >zeros"))],
        ..RunBatch::default()
    };
    client.run_batch(&sandbox, &fill).await.unwrap();
    let path = format!("/v1/sandboxes/{sandbox}/files?path=zeros");
    let api = HttpClient::of(&daemon);
    let download = async || {
        let request = api.without_token("GET", &path).header("authorization", format!("Bearer {lab}"));
        Answer::to(request).await
    };
    let began = Instant::now();
    let works = async {
        loop {
            press.whoami().await.unwrap();
        }
    };
    let answer = tokio::select! {
        answer = download() => answer,
        () = works => unreachable!("it never ends"),
    };
    assert!(began.elapsed() >= PACED, "{:?}", began.elapsed());
    assert_eq!((answer.status, answer.body.len()), (200, DOWNLOAD));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_project_has_a_cgroup_of_its_own() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "my-lab", None, &["use"]).await;
    for (client, project) in [(&daemon.client, "default"), (&lab, "my-lab")] {
        let sandbox = create(client, "chat:1").await.unwrap();
        let name = format!("remcochat-sandbox-{sandbox}");
        let container = docker().await.inspect_container(&name, None).await.unwrap();
        let parent = container.host_config.unwrap().cgroup_parent.unwrap();
        let expected =
            [format!("/sandboxd/{project}"), format!("sandboxd-{}.slice", project.replace('-', "_"))];
        assert!(expected.contains(&parent), "{parent}");
    }
    daemon.stop().await;
}
