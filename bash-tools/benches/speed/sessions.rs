//! Looking up an open session, beside a plain map behind a lock.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bash_tools::provider::{
    Command, Content, Download, Error, FileList, FilePart, Opened, Provider, Result, Running, SandboxId,
    Status,
};
use bash_tools::session::{ChatKey, SessionLimits, Sessions};
use bytes::Bytes;
use tokio::task::JoinSet;

const KEYS: usize = 1000;
const TASKS: usize = 16;
const LOOKUPS: usize = 200_000;

pub(crate) async fn measure() {
    println!("\n{TASKS} tasks look up {KEYS} open sessions");
    let keys: Arc<Vec<ChatKey>> =
        Arc::new((0..KEYS).map(|number| ChatKey::chat(&number.to_string()).unwrap()).collect());
    let limits = SessionLimits { max_open: KEYS, idle_ttl: Duration::from_secs(3600) };
    let sessions = Sessions::new(Arc::new(NullProvider), None, limits);
    let map: Arc<Mutex<HashMap<ChatKey, Arc<SandboxId>>>> = Arc::default();
    for key in keys.iter() {
        let sandbox = sessions.lease(key).await.unwrap().sandbox().clone();
        map.lock().unwrap().insert(key.clone(), Arc::new(sandbox));
    }
    let leases = {
        let (keys, sessions) = (Arc::clone(&keys), sessions.clone());
        rate(move |task| {
            let (keys, sessions) = (Arc::clone(&keys), sessions.clone());
            async move {
                for at in 0..LOOKUPS {
                    black_box(sessions.lease(&keys[(at * 7 + task * 61) % KEYS]).await.unwrap());
                }
            }
        })
        .await
    };
    let bare = rate(move |task| {
        let (keys, map) = (Arc::clone(&keys), Arc::clone(&map));
        async move {
            for at in 0..LOOKUPS {
                black_box(map.lock().unwrap().get(&keys[(at * 7 + task * 61) % KEYS]).cloned());
            }
        }
    })
    .await;
    println!(
        "  leases {:.2} million/s, a bare map {:.2} million/s    (goal: more than 1 million/s)",
        leases / 1e6,
        bare / 1e6
    );
}

async fn rate<F: Future<Output = ()> + Send + 'static>(work: impl Fn(usize) -> F) -> f64 {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for task in 0..TASKS {
        tasks.spawn(work(task));
    }
    tasks.join_all().await;
    (TASKS * LOOKUPS) as f64 / began.elapsed().as_secs_f64()
}

/// Sandboxes that are only names: the benchmark measures only the lookup.
struct NullProvider;

#[async_trait]
impl Provider for NullProvider {
    async fn open(&self, key: &ChatKey) -> Result<Opened> {
        Ok(Opened { sandbox: key.to_string().into(), is_new: true })
    }

    async fn find(&self, _: &ChatKey) -> Result<Option<SandboxId>> {
        Ok(None)
    }

    async fn run(&self, _: &SandboxId, _: Command) -> Result<Running> {
        Err(Error::Gone)
    }

    async fn read_file(&self, _: &SandboxId, _: &str, _: u64, _: usize) -> Result<FilePart> {
        Err(Error::Gone)
    }

    async fn write_file(&self, _: &SandboxId, _: &str, _: Bytes) -> Result<()> {
        Err(Error::Gone)
    }

    async fn list_files(&self, _: &SandboxId, _: &str, _: Option<&str>) -> Result<FileList> {
        Err(Error::Gone)
    }

    async fn download(&self, _: &SandboxId, _: &str) -> Result<Download> {
        Err(Error::Gone)
    }

    async fn upload(&self, _: &SandboxId, _: &str, _: u64, _: Content) -> Result<()> {
        Err(Error::Gone)
    }

    async fn remove_file(&self, _: &SandboxId, _: &str) -> Result<()> {
        Err(Error::Gone)
    }

    async fn status(&self, _: &SandboxId) -> Result<Status> {
        Err(Error::Gone)
    }

    async fn park(&self, _: &SandboxId) -> Result<()> {
        Err(Error::Gone)
    }

    async fn unpack(&self, _: &SandboxId, _: Content) -> Result<()> {
        Err(Error::Gone)
    }

    async fn url(&self, _: &SandboxId, _: u16) -> Result<String> {
        Err(Error::Gone)
    }

    async fn release(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }

    async fn delete(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }
}
