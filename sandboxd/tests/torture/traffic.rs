//! Kills at random times, during starts, and at random seams, under load from clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_api::sandbox::ListSandboxes;
use sandbox_client::Client;
use sandboxd::seam;
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::client::ChatClient;
use crate::snapshots;
use crate::world::World;

/// More sessions than may run at once, so that they park each other.
const SESSIONS: usize = 5;

/// Longest time between a start and a kill, in milliseconds.
const ALIVE_MS: u64 = 3000;

/// Longest time after which a start is interrupted, in milliseconds.
const START_MS: u64 = 2500;

/// Time limit for reaching a seam. After it, the kill comes anyway.
const SEAM: Duration = Duration::from_secs(3);

/// True when the clients must stop. Each client holds the lock while it acts, and the killer holds it when no request
/// may be in progress.
type Gate = Arc<RwLock<bool>>;

/// Kills while `continues`. Returns the counts of the clients' actions, for printing.
pub(crate) async fn under(world: &mut World, chance: &mut Chance, continues: impl Fn() -> bool) -> String {
    let gate = Gate::default();
    let clients: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let client = ChatClient::new(world.client.clone(), format!("chat:{number}"), chance.fork());
            tokio::spawn(chat(client, Arc::clone(&gate)))
        })
        .collect();
    let passer_by = tokio::spawn(pass_by(world.client.clone(), Arc::clone(&gate), chance.fork()));
    while continues() {
        kill(world, chance).await;
        let _closed = gate.write().await;
        if chance.below(4) == 0 && continues() {
            world.spawn();
            sleep(Duration::from_millis(chance.below(START_MS))).await;
            world.kill().await;
        }
        world.start().await;
        world.check("after a kill").await;
    }
    *gate.write().await = true;
    passer_by.await.unwrap();
    let mut did = BTreeMap::<&str, [usize; 3]>::new();
    for client in clients {
        let client = client.await.unwrap();
        client.found.iter().for_each(|found| world.found(found));
        for (act, counts) in client.did {
            let sums = did.entry(act).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    world.check("at the end").await;
    snapshots::are_sound(world, "at the end").await;
    let lines = did.into_iter().map(|(act, [done, refused, broken])| {
        format!("  {act}: {done} done, {refused} refused, {broken} broken off\n")
    });
    lines.collect()
}

async fn kill(world: &mut World, chance: &mut Chance) {
    if chance.below(3) == 0 {
        world.arm(&format!("{}:{}", chance.pick(&seam::ALL), 1 + chance.below(2)));
        if world.dies_within(SEAM).await {
            return;
        }
    } else {
        sleep(Duration::from_millis(chance.below(ALIVE_MS))).await;
    }
    world.kill().await;
}

async fn chat(mut client: ChatClient, gate: Gate) -> ChatClient {
    loop {
        let is_over = gate.read().await;
        if *is_over {
            break;
        }
        client.act().await;
    }
    client.settle().await;
    client
}

/// Sends harmless requests to other sessions' sandboxes.
async fn pass_by(client: Client, gate: Gate, mut chance: Chance) {
    loop {
        let is_over = gate.read().await;
        if *is_over {
            return;
        }
        // Any result is fine: the owners of the sandboxes would notice a change.
        if let Ok(listed) = client.list(&ListSandboxes::default()).await
            && !listed.sandboxes.is_empty()
        {
            let id = &chance.pick(&listed.sandboxes).sandbox_id;
            match chance.below(4) {
                0 => drop(client.park(id, false).await),
                1 => drop(client.touch(id, None).await),
                2 => drop(client.commands(id, 10).await),
                _ => drop(client.get(id).await),
            }
        }
        drop(is_over);
        sleep(Duration::from_millis(chance.below(200))).await;
    }
}
