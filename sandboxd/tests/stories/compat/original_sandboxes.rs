//! Sandboxes of the original daemon on the same engine.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{
    CreateContainerOptions, RemoveContainerOptions, RemoveVolumeOptions, StartContainerOptions,
};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};

use crate::support::harness::{Daemon, Home, docker, until};

/// An id in the original's format.
const ID: &str = "V1StGXR8_Z5jdHi6B-myT";

/// A container like the original's: root, a volume at the workspace, no agent.
struct Original(Docker);

impl Original {
    async fn make() -> Self {
        let engine = docker().await;
        let labels = [
            ("remcochat.sandboxId", ID),
            ("remcochat.sessionKey", "chat:original"),
            ("remcochat.runtime", "node24"),
            ("remcochat.ports", "3000"),
            ("remcochat.networkMode", "none"),
        ];
        let mount = Mount {
            typ: Some(MountType::VOLUME),
            source: Some(format!("remcochat-sandbox-ws-{ID}")),
            target: Some("/vercel/sandbox/workspace".into()),
            ..Mount::default()
        };
        let script = "cd /vercel/sandbox/workspace && mkdir -p a/b && echo kept > a/b/file && ln -s a/b/file link \
                      && ln -s /etc/shadow out && chmod 4755 a/b/file && mkfifo fifo && touch .done && sleep 600";
        let body = ContainerCreateBody {
            image: Some("remcochat-sandbox:node24".into()),
            user: Some("0".into()),
            entrypoint: Some(vec!["bash".into(), "-c".into(), script.into()]),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let name = Self::name();
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        engine.create_container(Some(options), body).await.unwrap();
        engine.start_container(&name, None::<StartContainerOptions>).await.unwrap();
        Self(engine)
    }

    fn name() -> String {
        format!("remcochat-sandbox-{ID}")
    }

    async fn runs(&self) -> bool {
        let found = self.0.inspect_container(&Self::name(), None).await;
        found.is_ok_and(|found| found.state.and_then(|state| state.running) == Some(true))
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let clean = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let engine = docker().await;
                let force = RemoveContainerOptions { force: true, ..Default::default() };
                let _ = engine.remove_container(&Self::name(), Some(force)).await;
                let force = RemoveVolumeOptions { force: true };
                let _ = engine.remove_volume(&format!("remcochat-sandbox-ws-{ID}"), Some(force)).await;
            });
        };
        let _ = std::thread::spawn(clean).join();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_original_sandbox_is_adopted_only_with_the_setting() {
    let original = Original::make().await;
    let daemon = Daemon::start().await;
    assert!(original.runs().await);
    assert!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.is_empty());
    let home: Home = daemon.stop().await;
    assert!(original.runs().await);

    let home = home.set("SANDBOXD_ADOPT_ORIGINAL", "1").set("SANDBOXD_DEFAULT_IDLE_TTL_MS", "60000");
    let daemon = Daemon::start_in(home).await;
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(listed.len(), 1);
    let seen: HashMap<_, _> = listed.iter().map(|found| (found.session_key.as_str(), found.state)).collect();
    assert_eq!(seen, HashMap::from([("chat:original", SandboxState::Parked)]));
    assert_eq!(listed[0].ports, [3000]);
    assert_eq!(listed[0].idle_ttl_ms, 60_000, "the operator's idle time");

    let request = CreateSandbox { session_key: "chat:original".into(), ..CreateSandbox::default() };
    let found = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((found.created, found.woken), (false, true));
    // The files now belong to the sandbox's user. Setuid bits and links that lead outside are removed.
    let looked = "cat a/b/file link; stat -c '%a %U' a/b/file; ls -d fifo 2>/dev/null; cat out; echo more >> a/b/file; \
                  wc -l < a/b/file";
    let outcome = daemon.run(&found.sandbox_id, looked).await;
    assert_eq!(outcome.text(), "kept\nkept\n755 sandbox\n2\n", "{outcome:?}");
    until("the original is removed", || async { !original.runs().await }).await;
    daemon.client.delete(&found.sandbox_id).await.unwrap();
    daemon.stop().await;
}
