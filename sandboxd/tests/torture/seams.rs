//! Each seam once and twice: a request that reaches it, the daemon's death there, and the next start.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::seam;

use crate::snapshots::{self, Needed};
use crate::world::World;
use crate::{fetches, inventory};
use test_daemon::{outcome, script};

/// Time limit for reaching a seam.
pub(crate) const SEAM: Duration = Duration::from_secs(20);

/// Visits of one seam.
const VISITS: usize = 2;

/// Seams of a start, with the situation that makes the start reach them.
const IN_A_START: &str = "start-up ";

/// Seams that only a start reaches. A start that has too little space for snapshots collects unused chunks.
const OF_STARTS: [&str; 7] = [
    "marker.made",
    "epoch.intent",
    "epoch.act",
    "epoch.outcome",
    "collect.stored",
    "collect.moved",
    "collect.forgotten",
];

/// Every way to die at a seam.
pub(crate) fn cases() -> Vec<String> {
    let visits = seam::ALL
        .iter()
        .filter(|seam| !OF_STARTS.contains(seam) && !is_of_a_repair(seam) && !is_of_packages(seam))
        .flat_map(|seam| (1..=VISITS).map(move |visit| format!("{seam}:{visit}")));
    // A start reaches these through its trial sandbox, and through earlier interruptions.
    let starts = ["start.attached", "start.created", "start.started", "remove.volume", "delete.act"];
    let starts = starts.iter().chain(&OF_STARTS).map(|seam| format!("{IN_A_START}{seam}:1"));
    let repairs = seam::ALL.iter().filter(|seam| is_of_a_repair(seam)).map(|seam| format!("{seam}:1"));
    // The collections leave a store that is almost full.
    repairs.chain(visits).chain(starts).collect()
}

/// Whether a fetch of a repository reaches this seam.
fn is_of_a_fetch(case: &str) -> bool {
    case.starts_with("fetch.")
}

/// Whether a resolution of packages reaches this seam. A story is killed there, because the torture has no index.
fn is_of_packages(seam: &str) -> bool {
    seam.starts_with("packages.")
}

/// Whether a check of the snapshots reaches this seam that finds a damaged pack.
fn is_of_a_repair(seam: &str) -> bool {
    seam.starts_with("quarantine.")
}

/// Whether only a daemon reaches this seam that starts sandboxes before sessions want them.
fn is_of_the_pool(case: &str) -> bool {
    case.starts_with("pool.") || case.starts_with("claim.")
}

pub(crate) async fn go_through(world: &mut World, cases: &[String]) {
    for case in cases {
        world.log(case);
        if is_of_the_pool(case) != (world.pool > 0) {
            world.kill().await;
            world.pool = usize::from(is_of_the_pool(case));
            world.start().await;
        }
        let needed = match case.strip_prefix(IN_A_START) {
            Some(seam) if seam.starts_with("collect.") => {
                Needed::Kept(snapshots::die_in_a_collection(world, seam).await)
            }
            Some(seam) => {
                die_in_a_start(world, seam).await;
                Needed::Nothing
            }
            None if is_of_a_repair(case) => snapshots::die_in_a_repair(world, case).await,
            None => die_at(world, case).await,
        };
        world.start().await;
        world.check(case).await;
        snapshots::check(world, case, needed).await;
        if is_of_a_fetch(case) {
            fetches::check(world, case).await;
        }
        still_works(world, case).await;
    }
}

async fn die_at(world: &mut World, case: &str) -> Needed {
    let (act, visits) = (case.split('.').next().unwrap(), case.ends_with(":2"));
    // `start` seams are reached by a wake and by a create, `remove` seams by a delete.
    let mut sandboxes = Vec::new();
    if !["create", "start", "fetch", "pool", "claim"].contains(&act) {
        for key in ["chat:seam-1", "chat:seam-2"] {
            sandboxes.push(create(&world.client, key).await.unwrap());
        }
    }
    if act == "wake" {
        for sandbox in &sandboxes {
            world.client.park(sandbox, false).await.unwrap();
        }
    }
    let needed = snapshots::prepare(world, act, &sandboxes).await;
    if is_of_the_pool(case) {
        world.until_one_waits().await;
    }
    world.arm(case);
    for number in 0..=usize::from(visits) {
        if number > 0 && is_of_the_pool(case) {
            world.until_one_waits().await;
        }
        // The last request gets no response.
        let _ = match sandboxes.get(number) {
            None if act == "fetch" => fetches::reach(&world.home, &world.client, number).await,
            None => create(&world.client, &format!("chat:seam-{}", number + 1)).await.map(drop),
            Some(sandbox) => reach(&world.client, act, sandbox, number, &needed).await,
        };
    }
    if !world.dies_within(SEAM).await {
        world.found(format!("{case} was not come to"));
        world.kill().await;
    }
    needed
}

/// Sends the request that reaches the seams of this act.
async fn reach(
    client: &Client,
    act: &str,
    sandbox: &SandboxId,
    number: usize,
    needed: &Needed,
) -> Result<(), sandbox_client::Error> {
    match act {
        "park" => client.park(sandbox, false).await.map(drop),
        "wake" => client.touch(sandbox, None).await.map(drop),
        "snapshot" | "restore" | "seed" | "fork" | "discard" => {
            snapshots::reach(client, act, sandbox, number, needed).await
        }
        _ => client.delete(sandbox).await.map(drop),
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
    // A start that knows that everything works tries nothing.
    inventory::remove_start_records(&world.home);
    world.arm(seam);
    world.spawn();
    if !world.dies_within(SEAM).await {
        world.found(format!("{seam} was not come to in a start"));
        world.kill().await;
    }
}

/// Checks that the sessions can be used and deleted after any interruption.
async fn still_works(world: &mut World, case: &str) {
    let keys = ["chat:seam-1", "chat:seam-2", "chat:seam-3", "chat:seam-4"];
    // Only these cases have the last two.
    let has_more = case.starts_with("seed.") || case.starts_with("fork.");
    let used = if has_more { &keys[..] } else { &keys[..2] };
    for &key in used {
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

pub(crate) async fn create(client: &Client, key: &str) -> Result<SandboxId, sandbox_client::Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(client.create_or_reconnect(&request).await?.sandbox_id)
}
