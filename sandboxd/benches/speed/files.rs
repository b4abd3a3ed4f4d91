//! Files: small ones, large ones, archives and lists, compared with the engine's archive endpoints and with tools in
//! the sandbox.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{DownloadFromContainerOptions, UploadToContainerOptions};
use bytes::Bytes;
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandboxd::model::layout::{WORKSPACE, container_name};
use tokio::time::sleep;

use crate::commands::agent_pid;
use crate::contenders::Api;
use crate::home::{Home, docker};
use crate::memory::{peak_kib, resident_kib};
use crate::table::{heading, ratio, row};

const SMALL: usize = 1024;
const LARGE: usize = 100 * 1024 * 1024;
const BLOCK: usize = 100;
const ENGINE_BLOCK: usize = 15;
const BLOCKS: usize = 6;
const ROUNDS: usize = 5;
const SETTLE: Duration = Duration::from_millis(300);
const MANY: usize = 1000;
const LISTED: usize = 10_000;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let request = CreateSandbox { session_key: "bench:files".into(), ..CreateSandbox::default() };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let mut ours = Ours { api: Api::connect(home.port).await, sandbox: sandbox.clone() };
    let engine = EngineArchive { docker: docker().await, container: container_name(&sandbox) };
    small(&mut ours, &engine).await;
    large(&mut ours, &engine).await;
    many(&mut ours).await;
    listed(&mut ours).await;
    let agent = agent_pid(&sandbox).await;
    println!(
        "  resident memory, current and peak: daemon {} and {} KiB, agent {} and {} KiB",
        resident_kib(home.daemon_pid()),
        peak_kib(home.daemon_pid()),
        resident_kib(agent),
        peak_kib(agent)
    );
}

async fn small(ours: &mut Ours, engine: &EngineArchive) {
    heading("files of 1 KiB");
    let (content, packed) = (Bytes::from(vec![7; SMALL]), tar_of("small", SMALL));
    let [mut put, mut get, mut engine_put, mut engine_get] = [const { Vec::new() }; 4];
    for _ in 0..BLOCKS {
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            put.push(ours.put("small", content.clone()).await);
            get.push(ours.get("small", SMALL).await);
        }
        sleep(SETTLE).await;
        for _ in 0..ENGINE_BLOCK {
            engine_put.push(engine.put(packed.clone()).await);
            engine_get.push(engine.get("small", SMALL).await);
        }
    }
    let (put, engine_put) = (row("write, sandboxd", put), row("write, engine's archive put", engine_put));
    let (get, engine_get) = (row("read, sandboxd", get), row("read, engine's archive get", engine_get));
    ratio("write: engine / sandboxd", engine_put.p50 / put.p50, "at least 20, and p50 at most 1 ms");
    ratio("read: engine / sandboxd", engine_get.p50 / get.p50, "at least 20, and p50 at most 1 ms");
}

async fn large(ours: &mut Ours, engine: &EngineArchive) {
    heading("a file of 100 MiB");
    let content = Bytes::from(vec![7; LARGE]);
    let [mut up, mut again, mut down, mut engine_up, mut engine_down] = [const { Vec::new() }; 5];
    for round in 0..ROUNDS {
        let (name, engine_name) = (format!("large{round}"), format!("engine{round}"));
        let packed = tar_of(&engine_name, LARGE);
        up.push(ours.put(&name, content.clone()).await);
        engine_up.push(engine.put(packed).await);
        down.push(ours.get(&name, LARGE).await);
        engine_down.push(engine.get(&engine_name, LARGE).await);
        again.push(ours.put(&name, content.clone()).await);
        ours.script(&format!("rm {name} {engine_name}")).await;
    }
    let (up, engine_up) = (row("up, sandboxd", up), row("up, engine's archive put", engine_up));
    let (down, engine_down) = (row("down, sandboxd", down), row("down, engine's archive get", engine_down));
    // Only sandboxd syncs replaced files to disk, so that a crash leaves one version or the other.
    row("up, replacing a file, sandboxd", again);
    ratio("up: engine / sandboxd", engine_up.p50 / up.p50, "at least 3");
    ratio("down: engine / sandboxd", engine_down.p50 / down.p50, "at least 3");
}

async fn many(ours: &mut Ours) {
    heading("an archive of 1,000 small files");
    let packed = tar_of_many();
    ours.put("many.tar", packed.clone()).await;
    let (mut unpack, mut tar, mut pack) = (Vec::new(), Vec::new(), Vec::new());
    let archive = format!("/v1/sandboxes/{}/files:archive?path=many", ours.sandbox);
    for _ in 0..ROUNDS {
        ours.script("rm -rf many inside; mkdir inside").await;
        unpack.push(ours.api.put(&archive, packed.clone()).await);
        tar.push(ours.script("tar xf many.tar -C inside").await);
        let (took, bytes) = ours.api.drain(&archive).await;
        assert!(bytes > MANY * 1024);
        pack.push(took);
    }
    let (unpack, tar) = (row("unpack, sandboxd", unpack), row("tar x inside", tar));
    row("pack, sandboxd", pack);
    ratio("sandboxd / tar x", unpack.p50 / tar.p50, "at most 2");
}

async fn listed(ours: &mut Ours) {
    heading("a directory of 10,000 entries");
    ours.script(&format!("mkdir listed; cd listed; seq {LISTED} | xargs touch")).await;
    let list = format!("/v1/sandboxes/{}/files:list?path=listed&limit={LISTED}", ours.sandbox);
    let (mut api, mut ls) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS * 2 {
        let (took, body) = ours.api.get(&list).await;
        assert!(body.ends_with(br#""nextCursor":null}"#));
        api.push(took);
        ls.push(ours.script("ls -l listed | wc -l").await);
    }
    let (api, ls) = (row("list, sandboxd", api), row("ls -l inside", ls));
    println!("  sandboxd takes {:+.1} ms compared with ls -l   (goal: at most +50)", api.p50 - ls.p50);
}

struct Ours {
    api: Api,
    sandbox: SandboxId,
}

impl Ours {
    async fn put(&mut self, name: &str, content: Bytes) -> Duration {
        self.api.put(&format!("/v1/sandboxes/{}/files?path={name}", self.sandbox), content).await
    }

    async fn get(&mut self, name: &str, size: usize) -> Duration {
        let (took, bytes) =
            self.api.drain(&format!("/v1/sandboxes/{}/files?path={name}", self.sandbox)).await;
        assert_eq!(bytes, size);
        took
    }

    async fn script(&mut self, script: &str) -> Duration {
        self.api.script(&self.sandbox, script).await
    }
}

/// The engine's archive endpoints on the same container.
struct EngineArchive {
    docker: Docker,
    container: String,
}

impl EngineArchive {
    async fn put(&self, packed: Bytes) -> Duration {
        let began = Instant::now();
        let options = UploadToContainerOptions { path: WORKSPACE.into(), ..Default::default() };
        let body = bollard::body_full(packed);
        self.docker.upload_to_container(&self.container, Some(options), body).await.unwrap();
        began.elapsed()
    }

    async fn get(&self, name: &str, size: usize) -> Duration {
        let began = Instant::now();
        let options = DownloadFromContainerOptions { path: format!("{WORKSPACE}/{name}") };
        let mut stream = self.docker.download_from_container(&self.container, Some(options));
        let mut bytes = 0;
        while let Some(piece) = stream.next().await {
            bytes += piece.unwrap().len();
        }
        assert!(bytes > size);
        began.elapsed()
    }
}

fn tar_of(name: &str, size: usize) -> Bytes {
    let mut builder = tar::Builder::new(Vec::with_capacity(size + 4096));
    append(&mut builder, name, size);
    builder.into_inner().unwrap().into()
}

fn tar_of_many() -> Bytes {
    let mut builder = tar::Builder::new(Vec::new());
    for at in 0..MANY {
        append(&mut builder, &format!("{}/{at}", at % 20), 1024);
    }
    builder.into_inner().unwrap().into()
}

fn append(builder: &mut tar::Builder<Vec<u8>>, name: &str, size: usize) {
    let mut header = tar::Header::new_gnu();
    header.set_size(size as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, &vec![7; size][..]).unwrap();
}
