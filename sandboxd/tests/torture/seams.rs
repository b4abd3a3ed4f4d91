//! Each seam once and twice: a request that reaches it, the daemon's death there, and the next start.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::seam;

use crate::inventory;
use crate::world::World;
use test_daemon::{outcome, script};

/// Time limit for reaching a seam.
const SEAM: Duration = Duration::from_secs(20);

/// Visits of one seam.
const VISITS: usize = 2;

/// Seams of a start, with the situation that makes the start reach them.
const IN_A_START: &str = "start-up ";

/// Seams that only a start reaches.
const OF_STARTS: [&str; 4] = ["marker.made", "epoch.intent", "epoch.act", "epoch.outcome"];

/// Every way to die at a seam.
pub(crate) fn cases() -> Vec<String> {
    let visits = seam::ALL
        .iter()
        .filter(|seam| !OF_STARTS.contains(seam))
        .flat_map(|seam| (1..=VISITS).map(move |visit| format!("{seam}:{visit}")));
    // A start reaches these through its trial sandbox, and through earlier interruptions.
    let starts = ["start.attached", "start.created", "start.started", "remove.volume", "delete.act"];
    visits.chain(starts.iter().chain(&OF_STARTS).map(|seam| format!("{IN_A_START}{seam}:1"))).collect()
}

pub(crate) async fn go_through(world: &mut World, cases: &[String]) {
    for case in cases {
        world.log(case);
        match case.strip_prefix(IN_A_START) {
            Some(seam) => die_in_a_start(world, seam).await,
            None => die_at(world, case).await,
        }
        world.start().await;
        world.check(case).await;
        still_works(world, case).await;
    }
}

async fn die_at(world: &mut World, case: &str) {
    let (act, visits) = (case.split('.').next().unwrap(), case.ends_with(":2"));
    // `start` seams are reached by a wake and by a create, `remove` seams by a delete.
    let mut sandboxes = Vec::new();
    if act != "create" && act != "start" {
        for key in ["chat:seam-1", "chat:seam-2"] {
            sandboxes.push(create(&world.client, key).await.unwrap());
        }
    }
    if act == "wake" {
        for sandbox in &sandboxes {
            world.client.park(sandbox, false).await.unwrap();
        }
    }
    world.arm(case);
    for number in 0..=usize::from(visits) {
        // The last request gets no response.
        let _ = match (act, sandboxes.get(number)) {
            (_, None) => create(&world.client, &format!("chat:seam-{}", number + 1)).await.map(drop),
            ("park", Some(sandbox)) => world.client.park(sandbox, false).await.map(drop),
            ("wake", Some(sandbox)) => world.client.touch(sandbox, None).await.map(drop),
            (_, Some(sandbox)) => world.client.delete(sandbox).await.map(drop),
        };
    }
    if !world.dies_within(SEAM).await {
        world.found(format!("{case} was not come to"));
        world.kill().await;
    }
}

/// Interrupts a delete, so that the start has one to finish, and then interrupts the start.
async fn die_in_a_start(world: &mut World, seam: &str) {
    let sandbox = create(&world.client, "chat:seam-1").await.unwrap();
    world.arm("delete.intent:1");
    let _ = world.client.delete(&sandbox).await;
    if !world.dies_within(SEAM).await {
        world.found("delete.intent was not come to");
        world.kill().await;
    }
    if seam.starts_with("marker") {
        inventory::remove_marker(&world.home).await;
    }
    world.arm(seam);
    world.spawn();
    if !world.dies_within(SEAM).await {
        world.found(format!("{seam} was not come to in a start"));
        world.kill().await;
    }
}

/// Checks that both sessions can be used and deleted after any interruption.
async fn still_works(world: &mut World, case: &str) {
    for key in ["chat:seam-1", "chat:seam-2"] {
        let works = async {
            let sandbox = create(&world.client, key).await?;
            let said =
                outcome(world.client.run(&sandbox, &script("echo here > file; cat file")).await?).await;
            Ok::<_, sandbox_client::Error>((sandbox, said.text()))
        };
        match works.await {
            Ok((sandbox, said)) if said == "here\n" => {
                if let Err(error) = world.client.delete(&sandbox).await {
                    world.found(format!("{case}: delete afterwards: {error:?}"));
                }
            }
            other => world.found(format!("{case}: {key} afterwards: {other:?}")),
        }
    }
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, sandbox_client::Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(client.create_or_reconnect(&request).await?.sandbox_id)
}
