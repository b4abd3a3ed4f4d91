//! The engine's part of an upgrade: `sandboxd-engine` installs the plugin, and removes old versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandboxd_engine::Engine;
use sandboxd_model::{EngineAddress, Instance};

use crate::fixture::{World, program};

/// A client with an instance of its own, and the id of that.
async fn engine() -> (Engine, String) {
    let mut key = [0; 32];
    // The id of an instance depends on its key. No other test has this one.
    key[..4].copy_from_slice(&std::process::id().to_le_bytes());
    let instance = Arc::new(Instance::new(key));
    let id = instance.id().to_owned();
    let address = EngineAddress::Unix("/var/run/docker.sock".into());
    (Engine::connect(address, instance, None, Arc::default()).await.unwrap(), id)
}

/// The plugin's program with another digest.
fn next_version(dir: &Path) -> PathBuf {
    let path = dir.join("next");
    let mut bytes = fs::read(program()).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn a_new_version_replaces_the_old_one_after_its_last_volume() {
    let Some(world) = World::on_machine() else { return };
    let (engine, _) = engine().await;
    let old = engine.ensure_volume_plugin(&program(), world.path()).await.unwrap();
    assert_eq!(engine.ensure_volume_plugin(&program(), world.path()).await.unwrap(), old);
    world.engine.docker(&["plugin", "disable", &old]);
    assert_eq!(engine.ensure_volume_plugin(&program(), world.path()).await.unwrap(), old);
    let state = world.engine.docker(&["plugin", "inspect", "--format", "{{.Enabled}}", &old]);
    assert_eq!(state, "true", "a plugin that was stopped is started again");

    let name = format!("sbxvolume-versions-{}", std::process::id());
    let base = format!("base={}", "0".repeat(64));
    let options = ["--opt", "disk=a", "--opt", &base, "--opt", "uid=20001"];
    world.engine.docker(&[&["volume", "create", "--driver", &old][..], &options, &[&name]].concat());

    let new = engine.ensure_volume_plugin(&next_version(world.path()), world.path()).await.unwrap();
    assert_ne!(old, new);
    assert_eq!(engine.remove_old_volume_plugins(|name| name == new).await.unwrap(), [&*old]);
    world.engine.docker(&["volume", "rm", &name]);
    assert_eq!(engine.remove_old_volume_plugins(|name| name == new).await.unwrap(), [""; 0]);
    world.engine.denied(&["plugin", "inspect", &old]);
    world.engine.docker(&["plugin", "inspect", &new]);
    assert_eq!(engine.remove_old_volume_plugins(|_| false).await.unwrap(), [""; 0]);
    world.engine.denied(&["plugin", "inspect", &new]);
}

#[tokio::test]
async fn nothing_is_left_of_a_plugin_that_does_not_start() {
    let Some(world) = World::on_machine() else { return };
    let (engine, id) = engine().await;
    let broken = world.path().join("broken");
    fs::write(&broken, "not a program").unwrap();
    let plugins = || world.engine.docker(&["plugin", "ls", "--format", "{{.Name}}"]);
    let is_ours = |list: String| list.lines().any(|name| name.contains(&id));
    engine.ensure_volume_plugin(&broken, world.path()).await.unwrap_err();
    assert!(!is_ours(plugins()));
    let missing = world.path().join("missing");
    let error = engine.ensure_volume_plugin(&missing, world.path()).await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}
