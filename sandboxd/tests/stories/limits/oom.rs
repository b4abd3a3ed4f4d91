//! Who is told of a want of memory: the command that died of it and no other.

use std::time::Duration;

use sandbox_api::command::EndReason;
use tokio_util::sync::CancellationToken;

use super::memory::{HOG, small};
use super::{Scene, sandbox_with};
use crate::harness::{outcome, script};

#[tokio::test(flavor = "multi_thread")]
async fn other_commands_of_the_sandbox_end_as_they_would_have() {
    let scene = Scene::with(small()).await;
    let client = &scene.daemon.client;
    let survivor = script("until [ -e hog-is-dead ]; do sleep 0.05; done; echo survived");
    let survivor = client.run(&scene.attacker, &survivor).await.unwrap();
    let failing = script("until [ -e hog-is-dead ]; do sleep 0.05; done; kill $$");
    let failing = client.run(&scene.attacker, &failing).await.unwrap();
    let hog = scene.attack("a hog beside two commands", scene.run(HOG)).await;
    assert_eq!(hog.reason, EndReason::Oom);
    scene.daemon.output(&scene.attacker, "touch hog-is-dead").await;
    let survivor = outcome(survivor).await;
    assert_eq!((survivor.text().as_str(), survivor.reason), ("survived\n", EndReason::Exited));
    let failing = outcome(failing).await;
    assert_eq!((failing.exit_code, failing.reason), (143, EndReason::Killed));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_sandbox_lacks_is_not_this_ones_want() {
    let scene = Scene::with(small()).await;
    let (client, bystander) = (&scene.daemon.client, &scene.bystander);
    let over = CancellationToken::new();
    let hogs = async {
        let mut hogs = 0;
        while !over.is_cancelled() {
            assert_eq!(scene.run(HOG).await.reason, EndReason::Oom);
            hogs += 1;
        }
        hogs
    };
    let killed = async {
        // As long as a few of the neighbour's deaths, then a KILL of its own.
        let wish = script("sleep 2; kill -9 $$");
        let streamed = outcome(client.run(bystander, &wish).await.unwrap()).await;
        let in_a_shell = scene.daemon.run(bystander, "bash -c 'sleep 1; kill -9 $$'; exit $?").await;
        let command = client.start(bystander, &wish).await.unwrap().command_id;
        let awaited = client.wait(bystander, &command, None).await.unwrap();
        over.cancel();
        let inspected = client.inspect(bystander, &command).await.unwrap();
        [streamed.reason, in_a_shell.reason, awaited.reason, inspected.reason.unwrap()]
    };
    let (hogs, reasons) = tokio::join!(hogs, killed);
    assert!(hogs > 1, "{hogs} deaths next door");
    assert_eq!(reasons[0], EndReason::Killed);
    assert_eq!(reasons[2..], [EndReason::Killed; 2]);
    assert_eq!(reasons[1], EndReason::Exited);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_may_want_too_much_at_once() {
    let scene = Scene::with(small()).await;
    let second = sandbox_with(&scene.daemon, "chat:second", small()).await;
    let attack = async { tokio::join!(scene.run(HOG), scene.daemon.run(&second, HOG)) };
    let (one, two) = scene.attack("two hogs", attack).await;
    assert_eq!((one.reason, two.reason), (EndReason::Oom, EndReason::Oom));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_long_after_a_neighbour_commands_death_was_just_killed() {
    let scene = Scene::with(small()).await;
    let client = &scene.daemon.client;
    let server = script("until [ -e end-it ]; do sleep 0.05; done; kill -9 $$");
    let server = client.run(&scene.attacker, &server).await.unwrap();
    assert_eq!(scene.run(HOG).await.reason, EndReason::Oom);
    // Longer than the engine is given to tell of it.
    tokio::time::sleep(sandboxd::model::limits::OOM_TOLD + Duration::from_secs(2)).await;
    scene.daemon.output(&scene.attacker, "touch end-it").await;
    assert_eq!(outcome(server).await.reason, EndReason::Killed);
    scene.end().await;
}
